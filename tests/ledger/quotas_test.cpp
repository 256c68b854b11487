#include "filters/ledger/rules/quotas.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/postgres/connection.h"
#include "proxy/base/limits.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::caller_book_test {
namespace {

constexpr std::int64_t kMinute = 60'000;

TEST(CallerBookTest, OperationsOfTheLastHourCountAndNoOthers) {
  QuotaUsage book;
  Quota quota;
  quota.operations_per_hour = 3;
  QuotaUsage::Use& use = book.Of("a");
  for (const std::int64_t at : {0L, 10L, 59L}) {
    EXPECT_FALSE(book.Exceeded(quota, use, true, at * kMinute));
    book.CountNew(use, at * kMinute);
  }
  EXPECT_EQ(book.Exceeded(quota, use, true, 59 * kMinute), QuotaKind::kOperationsPerHour);
  EXPECT_FALSE(book.Exceeded(quota, use, false, 59 * kMinute));  // a further attempt
  EXPECT_FALSE(book.Exceeded(quota, use, true, 60 * kMinute));
  book.CountNew(use, 60 * kMinute);
  EXPECT_EQ(book.Exceeded(quota, use, true, 69 * kMinute), QuotaKind::kOperationsPerHour);
  EXPECT_FALSE(book.Exceeded(quota, use, true, 70 * kMinute));
  EXPECT_FALSE(book.Exceeded(quota, use, true, 1'000'000 * kMinute));
}

TEST(CallerBookTest, EveryCallerIsHeldToItsOwnUse) {
  QuotaUsage book;
  Quota quota;
  quota.writes_in_flight = 2;
  quota.stored_bytes = 100;
  book.Of("a").running = 2;
  book.Store("b", 99);
  EXPECT_EQ(book.Exceeded(quota, book.Of("a"), true, 0), QuotaKind::kWritesInFlight);
  EXPECT_FALSE(book.Exceeded(quota, book.Of("b"), true, 0));
  book.Store("b", 1);
  EXPECT_EQ(book.Exceeded(quota, book.Of("b"), true, 0), QuotaKind::kStoredBytes);
  book.Free("b", 1);
  EXPECT_FALSE(book.Exceeded(quota, book.Of("b"), true, 0));
  book.Free("b", 1'000);
  EXPECT_EQ(book.Of("b").stored_bytes, 0U);
  EXPECT_FALSE(book.Exceeded(quota, book.Of("c"), true, 0));
}

TEST(CallerBookTest, CallersWithoutEndShareOneEntry) {
  QuotaUsage book;
  for (std::size_t i = 0; i < limits::kCallersMax + 100; ++i) {
    book.Store("caller" + std::to_string(i), 1);
  }
  EXPECT_EQ(&book.Of("one more"), &book.Of("and another"));
  EXPECT_NE(&book.Of("caller1"), &book.Of("one more"));
}

class QuotasTest : public testing::TestWithParam<Store> {
 protected:
  Result<Begun> Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    return begun;
  }
  void Succeed(const Event& event, std::string body = "done") {
    EXPECT_TRUE(Await(ledger_->Record(Success(event, std::move(body)), executor_), executor_));
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(QuotasTest, OneCallerOverItsQuotaLeavesRoomForAnother) {
  const auto call = [](const std::string& caller, const std::string& key) {
    NewOperation made = Call(key);
    made.event.caller = caller;
    made.quota.writes_in_flight = 2;
    made.quota.operations_per_hour = 5;
    return made;
  };
  std::vector<Event> running;
  for (const char* const key : {"f0", "f1"}) running.push_back(Begin(call("flood", key))->event);
  const auto third = Begin(call("flood", "f2"));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(third.error().delivery(), Delivery::kNotSent);
  EXPECT_EQ(Begin(call("flood", "f0"))->kind, Begun::Kind::kRunning);  // a repeat is no new write
  EXPECT_TRUE(Begin(call("calm", "c0")));
  for (const Event& event : running) Succeed(event);
  for (const char* const key : {"f3", "f4", "f5"}) {
    const auto begun = Begin(call("flood", key));
    ASSERT_TRUE(begun) << key;
    Succeed(begun->event);
  }
  EXPECT_EQ(Begin(call("flood", "f6")).error().code(), ErrorCode::kQuotaExceeded);
  EXPECT_EQ(Begin(call("flood", "f3"))->kind, Begun::Kind::kReplay);
  EXPECT_TRUE(Begin(call("calm", "c1")));
  const LedgerStats stats = ledger_->Stats();
  EXPECT_EQ(stats.quota_refusals.at(0), 1U);
  EXPECT_EQ(stats.quota_refusals.at(1), 1U);
  clock_.Advance(Millis(61 * kMinute));
  EXPECT_TRUE(Begin(call("flood", "f6")));
}

TEST_P(QuotasTest, StoredBytesCountOfEachCallerAlone) {
  int next = 0;
  const auto call = [&](const std::string& caller) {
    NewOperation made = Call(std::string(caller).append(std::to_string(next++)));
    made.event.caller = caller;
    made.quota.stored_bytes = 64 * 1024;
    return made;
  };
  for (auto begun = Begin(call("flood")); begun; begun = Begin(call("flood"))) {
    Succeed(begun->event, std::string(5'000, 'x'));
    ASSERT_LT(next, 100);
  }
  EXPECT_GT(next, 8);
  EXPECT_TRUE(Begin(call("calm")));
  EXPECT_EQ(ledger_->Stats().quota_refusals.at(2), 1U);
  if (!store_.is_shared()) return;
  // Whichever process has removed it.
  const auto connection = PgConnection::Open({.url = store_.url()});
  ASSERT_TRUE(connection && (*connection)->Execute("UPDATE stream SET base = head"));
  clock_.Advance(Millis(1'001));
  EXPECT_TRUE(Begin(call("flood")));
}

INSTANTIATE_TEST_SUITE_P(Stores, QuotasTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::caller_book_test
