// A row that was changed, dropped or moved is found, also where every row by itself is sound: each
// check that verify makes of a row, by rows that fail that one alone.
#include <gtest/gtest.h>

#include "filters/ledger/memory/memory_event_log.h"
#include "filters/ledger/queries/log_queries.h"
#include "filters/ledger/rows/row_codec.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::chain_check_test {
namespace {

// Rows 1 to 4, and what becomes of them on their way into the log.
class ChainCheckTest : public testing::Test {
 protected:
  static std::string Row(std::uint64_t seq, const Digest& before, const std::string& who = "ann") {
    std::string row;
    AppendOrderRow(row, {RowKind::kOrder, seq, 1, 1'000, before},
                   {"ledger.accept", who, "looked", "v1", DigestOf("policy")});
    return row;
  }
  static std::vector<std::string> Rows() {
    std::vector<std::string> rows;
    Digest before{};
    for (std::uint64_t seq = 1; seq <= 4; ++seq) {
      rows.push_back(Row(seq, before));
      before = RowHash(rows.back());
    }
    return rows;
  }
  static VerifyReport Verify(const std::vector<std::string>& rows) {
    MemoryEventLog log;
    RowBatch batch;
    batch.first_seq = 1;
    for (const std::string& row : rows) {
      batch.bytes += row;
      batch.ends.push_back(batch.bytes.size());
    }
    EXPECT_TRUE(log.Append(batch));
    return VerifyLog(log, nullptr, rows.size(), RowHash(rows.back()));
  }
};

TEST_F(ChainCheckTest, AWholeChainIsGood) {
  const VerifyReport report = Verify(Rows());
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_EQ(report.rows, 4U);
}

TEST_F(ChainCheckTest, ARowThatWasReplacedByASoundOneIsFoundByTheRowBehindIt) {
  auto rows = Rows();
  rows[1] = Row(2, RowHash(rows[0]), "eve");
  const VerifyReport report = Verify(rows);
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.check, "chain");
  EXPECT_EQ(report.bad_row, 3U);
}

TEST_F(ChainCheckTest, ARowThatWasDroppedOrMovedIsFoundByItsNumber) {
  auto dropped = Rows();
  dropped.erase(dropped.begin() + 1);
  auto moved = Rows();
  std::swap(moved[1], moved[2]);
  for (const auto& rows : {dropped, moved}) {
    const VerifyReport report = Verify(rows);
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(report.check, "number");
    EXPECT_EQ(report.bad_row, 2U);
  }
}

TEST_F(ChainCheckTest, ALastRowThatWasReplacedIsFoundByTheHeadThatTheProcessWrote) {
  auto rows = Rows();
  MemoryEventLog log;
  RowBatch batch;
  batch.first_seq = 1;
  batch.bytes = rows[0];
  batch.ends = {rows[0].size()};
  ASSERT_TRUE(log.Append(batch));
  const VerifyReport report = VerifyLog(log, nullptr, 1, RowHash(Row(1, Digest{}, "eve")));
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.check, "head");
}

}  // namespace
}  // namespace recourse::chain_check_test
