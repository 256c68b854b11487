// What auditors read: every row with its bytes, and the orders that no other row tells of.
#include "filters/ledger/queries/audit.h"

#include <gtest/gtest.h>

#include <memory>

#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/memory/make_memory_ledger.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::audit_test {
namespace {

const OperatorOrder kOrder{"ledger.accept", "ann", "looked at it", "0123456789abcdef",
                           DigestOf("policy")};

enum class Store : std::uint8_t { kMemory, kLmdb };

class AuditTest : public testing::TestWithParam<Store> {
 protected:
  AuditTest() { Open(); }

  void Open() {
    ledger_.reset();
    if (GetParam() == Store::kMemory) {
      ledger_ = MakeMemoryLedger(clock_);
      return;
    }
    auto opened = OpenLmdbLedger(
        {.directory = directory_.data(), .map_bytes = 64U << 20, .unsafe_fs = true}, clock_);
    if (!opened) ADD_FAILURE() << opened.error();
    ledger_ = std::move(*opened);
  }
  LedgerAuditor& Auditor() { return dynamic_cast<LedgerAuditor&>(*ledger_); }
  void Succeed(const std::string& key) {
    const auto begun = Await(ledger_->Begin(Call(key), executor_), executor_);
    ASSERT_TRUE(begun && Await(begun->commit->Durable(), executor_));
    ASSERT_TRUE(Await(ledger_->Record(Success(begun->event, "body"), executor_), executor_));
  }
  std::vector<LoggedRow> Rows(std::uint64_t after = 0, std::uint64_t up_to = 1'000,
                              std::size_t limit = 1'000) {
    auto rows = Auditor().Rows(after, up_to, limit);
    EXPECT_TRUE(rows.has_value());
    return rows ? std::move(*rows) : std::vector<LoggedRow>();
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  TempDirectory directory_{FastParent()};
  std::unique_ptr<Ledger> ledger_;
};

TEST_P(AuditTest, EveryRowIsThereWithTheBytesOfItsHash) {
  Succeed("one");
  ASSERT_TRUE(Auditor().RecordOrder(kOrder));
  Succeed("two");
  const auto rows = Rows();
  const LedgerStats stats = ledger_->Stats();
  ASSERT_EQ(rows.size(), stats.last_id);
  Digest hash{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].head.seq, i + 1);
    EXPECT_EQ(rows[i].head.prev_hash, hash);
    hash = RowHash(rows[i].bytes);
  }
  EXPECT_EQ(hash, stats.head);
}

TEST_P(AuditTest, AnOrderIsARowOfTheChainThatARestartReads) {
  Succeed("one");
  ASSERT_TRUE(Auditor().RecordOrder(kOrder));
  const std::uint64_t number = ledger_->Stats().last_id;
  if (GetParam() == Store::kLmdb) Open();
  EXPECT_TRUE(ledger_->Verify().ok);
  const auto rows = Rows(number - 1, number);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].head.kind, RowKind::kOrder);
  EXPECT_EQ(std::get<OperatorOrder>(rows[0].told), kOrder);
  Succeed("after");
}

TEST_P(AuditTest, PagesGoOnWithoutAGap) {
  for (int i = 0; i < 5; ++i) Succeed("call " + std::to_string(i));
  const std::uint64_t last = ledger_->Stats().last_id;
  std::uint64_t next = 0;
  while (next < last) {
    const auto page = Rows(next, last, 3);
    ASSERT_FALSE(page.empty());
    EXPECT_LE(page.size(), 3U);
    for (const LoggedRow& row : page) EXPECT_EQ(row.head.seq, ++next);
  }
  EXPECT_TRUE(Rows(last).empty());
  EXPECT_EQ(Rows(1, 2).size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Stores, AuditTest, testing::Values(Store::kMemory, Store::kLmdb));

}  // namespace
}  // namespace recourse::audit_test
