// A ledger whose ids are of another stream than 0, as those of a shared ledger are.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/memory/make_memory_ledger.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/open/open.h"
#include "filters/ledger/queries/operation_queries.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::stream_ids_test {
namespace {

constexpr std::uint64_t Id(std::uint64_t number) {
  return PackRowId({.stream = 42, .number = number});
}

class StreamIdsTest : public testing::Test {
 protected:
  Event Dispatch(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun && Await(begun->commit->Durable(), executor_));
    return begun ? begun->event : Event();
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  std::unique_ptr<Ledger> ledger_ = MakeMemoryLedger(clock_, 42);
};

TEST_F(StreamIdsTest, RowsBeginAtOneInTheirStream) {
  const Event first = Dispatch(Call("a"));
  EXPECT_EQ(PrintRowId(first.operation), "42.2");  // after the row of the start
  const auto done = Await(ledger_->Record(Move(first, Phase::kSucceeded), executor_), executor_);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->id, Id(3));
  const LedgerStats stats = ledger_->Stats();
  EXPECT_EQ(stats.first_id, Id(1));
  EXPECT_EQ(stats.last_id, Id(3));
  EXPECT_EQ(stats.rows, 3U);
}

TEST_F(StreamIdsTest, QueriesFindWhatWasWritten) {
  const Event first = Dispatch(Call("a")), second = Dispatch(Call("b"));
  EXPECT_EQ((*ledger_->Find(second.operation))->operation, second.operation);
  EXPECT_EQ(ledger_->List({})->events.size(), 2U);
  EXPECT_EQ(ledger_->List({.after = first.id})->events.size(), 1U);
  EXPECT_EQ(ledger_->List({.after = Id(0), .up_to = first.id})->events.size(), 1U);
  const auto page = dynamic_cast<OperationLister&>(*ledger_).Operations({});
  ASSERT_TRUE(page);
  EXPECT_EQ(page->events.size(), 2U);
  EXPECT_FALSE(page->older);
  const auto open = Await(ledger_->Open(0, 10, executor_), executor_);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->size(), 2U);
}

TEST_F(StreamIdsTest, ItsChainIsVerified) {
  Dispatch(Call("a"));
  const VerifyReport report = ledger_->Verify();
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_EQ(report.first_id, Id(1));
  EXPECT_EQ(report.base, "");
  EXPECT_EQ(report.rows, 2U);
}

TEST(OpenLedgerTest, EveryStoreHasItsAddress) {
  ManualClock clock;
  const auto open = [&](const std::string& text) {
    return OpenLedger(*ParseLedgerUrl(text), {.embedded = {.directory = {}, .unsafe_fs = true}},
                      clock);
  };
  const auto memory = open("memory:?stream=7");
  ASSERT_TRUE(memory) << memory.error().why;
  EXPECT_EQ(PrintRowId((*memory)->Stats().last_id), "7.1");
  const TempDirectory directory;
  const auto lmdb = open("lmdb:" + directory.data());
  ASSERT_TRUE(lmdb) << lmdb.error().why;
  EXPECT_EQ(PrintRowId((*lmdb)->Stats().last_id), "1");
  EXPECT_TRUE(HasLedger(directory.data()));
  const auto shared = open("postgres://u:hunter2@127.0.0.1:1/x?sslmode=disable");
  ASSERT_FALSE(shared);
  EXPECT_EQ(shared.error().why.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace recourse::stream_ids_test
