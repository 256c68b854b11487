#include "filters/ledger/rules/quotas.h"

#include <gtest/gtest.h>

#include "proxy/base/limits.h"

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

}  // namespace
}  // namespace recourse::caller_book_test
