#include "filters/ledger/rules/row_ages.h"

#include <gtest/gtest.h>

#include "proxy/base/limits.h"

namespace recourse::age_book_test {
namespace {

MonoTime At(std::int64_t ms) { return MonoTime(Millis(ms)); }

TEST(AgeBookTest, ARowIsAsOldAsTheFirstMarkAfterIt) {
  RowAges book({}, 5, At(1'000));
  EXPECT_FALSE(book.Mark(At(1'009), 7, Millis(10)));
  EXPECT_TRUE(book.Mark(At(1'010), 8, Millis(10)));
  EXPECT_TRUE(book.Mark(At(1'030), 9, Millis(10)));
  EXPECT_EQ(book.OldThrough(At(1'030), Millis(31)), 0U);
  EXPECT_EQ(book.OldThrough(At(1'030), Millis(30)), 5U);
  EXPECT_EQ(book.OldThrough(At(1'030), Millis(20)), 8U);
  EXPECT_EQ(book.OldThrough(At(1'039), Millis(10)), 8U);
  EXPECT_EQ(book.OldThrough(At(1'040), Millis(10)), 9U);
  book.Forget(8);
  EXPECT_EQ(book.OldThrough(At(1'035), Millis(20)), 0U);
}

TEST(AgeBookTest, TimeBetweenTwoProcessesDoesNotCount) {
  RowAges first({}, 0, At(0));
  EXPECT_TRUE(first.Mark(At(100), 3, Millis(10)));
  const RowAges second(first.Encode(At(150)), 3, At(9'000'000));
  EXPECT_EQ(second.LivedMs(At(9'000'000)), 150);
  EXPECT_EQ(second.OldThrough(At(9'000'000), Millis(51)), 0U);
  EXPECT_EQ(second.OldThrough(At(9'000'001), Millis(51)), 3U);
}

TEST(AgeBookTest, WithoutAKeptBookEverythingBeginsToAgeNow) {
  for (const std::string& bytes : {std::string(), std::string("garbage"), std::string(16, '\0')}) {
    const RowAges book(bytes, 40, At(77));
    EXPECT_EQ(book.OldThrough(At(177), Millis(101)), 0U);
    EXPECT_EQ(book.OldThrough(At(177), Millis(100)), 40U);
  }
}

TEST(AgeBookTest, ManyMarksAreThinnedAndNothingSeemsOlderForIt) {
  RowAges book({}, 0, At(0));
  const auto count = static_cast<std::int64_t>(3 * limits::kAgeMarksMax);
  for (std::int64_t i = 1; i <= count; ++i) {
    EXPECT_TRUE(book.Mark(At(i * 10), static_cast<std::uint64_t>(i), Millis(10)));
  }
  EXPECT_LT(book.Encode(At(count * 10)).size(), 20 * limits::kAgeMarksMax);
  for (std::int64_t age = 0; age < count * 10; age += 777) {
    const auto exact = static_cast<std::uint64_t>((count * 10 - age) / 10);
    EXPECT_LE(book.OldThrough(At(count * 10), Millis(age)), exact);
  }
}

TEST(AgeBookTest, AnIdleLedgerGrowsOlder) {
  RowAges book({}, 0, At(0));
  EXPECT_TRUE(book.Mark(At(10), 4, Millis(10)));
  EXPECT_TRUE(book.Mark(At(20), 4, Millis(10)));
  EXPECT_EQ(book.OldThrough(At(30), Millis(20)), 4U);
}

}  // namespace
}  // namespace recourse::age_book_test
