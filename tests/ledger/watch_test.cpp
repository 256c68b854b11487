#include "filters/ledger/lease/watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proxy/base/lease_limits.h"

namespace recourse::watch_test {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Stream 7 watches 9, which has something open.
class WatchTest : public ::testing::Test {
 protected:
  WatchTest() { (void)List({{9, 4, true}}); }
  std::vector<Watch::Silent> List(std::vector<Watch::Beat> streams) {
    return watch_.List(now_, now_, streams);
  }
  // One query every half a second for so long, with the same answer.
  std::vector<Watch::Silent> ReadFor(milliseconds time, Watch::Beat beat) {
    std::vector<Watch::Silent> silent;
    for (const MonoTime end = now_ + time; now_ < end;) {
      now_ += milliseconds(500);
      silent = ReadOnce(beat);
    }
    return silent;
  }
  std::vector<Watch::Silent> ReadOnce(Watch::Beat beat, milliseconds takes = {}) {
    const MonoTime asked = now_;
    now_ += takes;
    return watch_.Read(asked, now_, std::array{beat});
  }

  MonoTime now_{std::chrono::hours(1)};
  Watch watch_{7};
};

TEST(RingTest, BeginsWithTheNextOneAndAnewAtItsEnd) {
  EXPECT_THAT(SuccessorsInRing(7, {1, 3, 9, 12, 40}), ElementsAre(9, 12, 40, 1, 3));
  EXPECT_THAT(SuccessorsInRing(12, {40, 3, 9, 12, 1}), ElementsAre(40, 1, 3, 9));
  EXPECT_THAT(SuccessorsInRing(50, {1, 3, 9, 12}), ElementsAre(1, 3, 9, 12));
  EXPECT_THAT(SuccessorsInRing(7, {7, 9, 9}), ElementsAre(9));
  EXPECT_THAT(SuccessorsInRing(7, {7}), IsEmpty());
  EXPECT_THAT(SuccessorsInRing(7, {}), IsEmpty());
}

TEST(RingTest, IsListedOnceASecondBySmallGroupsAndLessOftenByLargeOnes) {
  for (const bool is_open : {true, false}) {
    EXPECT_EQ(ListEvery(0, is_open), milliseconds(1'000));
    EXPECT_EQ(ListEvery(10, is_open), milliseconds(1'000));
  }
  EXPECT_EQ(ListEvery(300, true), milliseconds(3'000));
  EXPECT_EQ(ListEvery(300, false), milliseconds(30'000));
  EXPECT_EQ(ListEvery(1'000'000, true), milliseconds(10'000));
  EXPECT_EQ(ListEvery(1'000'000, false), milliseconds(100'000));
}

TEST_F(WatchTest, AStreamIsDeadAfterSevenSecondsOfTheSameBeat) {
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 5, true}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), ElementsAre(Watch::Silent{9, 5}));
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), ElementsAre(Watch::Silent{9, 5}));
}

TEST_F(WatchTest, ABeatThatIsRaisedInTimeCountsAnew) {
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 5, true}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 6, true}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 6, true}), ElementsAre(Watch::Silent{9, 6}));
}

TEST_F(WatchTest, WhoHasNothingOpenIsSilentAndNotDead) {
  EXPECT_THAT(ReadFor(milliseconds(60'000), {9, 5, false}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(6'500), {9, 5, true}), IsEmpty());
}

// An outage of the database, or of the way to it: nobody could tell that it lives.
TEST_F(WatchTest, APauseOfMoreThanTwoSecondsBetweenAnswersBeginsAnew) {
  EXPECT_THAT(ReadFor(milliseconds(6'500), {9, 5, true}), IsEmpty());
  now_ += milliseconds(2'001);
  EXPECT_THAT(ReadOnce({9, 5, true}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(6'500), {9, 5, true}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), ElementsAre(Watch::Silent{9, 5}));
}

// However short the outage was: a batch may have been lost in it, and several in several.
TEST_F(WatchTest, AQueryThatFailsBeginsAnew) {
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 5, true}), IsEmpty());
  watch_.Failed();
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 5, true}), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), ElementsAre(Watch::Silent{9, 5}));
}

TEST_F(WatchTest, AQueryThatTakesLongerThanThatBeginsAnewToo) {
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 5, true}), IsEmpty());
  EXPECT_THAT(ReadOnce({9, 5, true}, milliseconds(2'001)), IsEmpty());
  EXPECT_THAT(ReadFor(milliseconds(6'500), {9, 5, true}), IsEmpty());
}

// The beat may have been raised just after a slow query read it, and read just after it was sent.
TEST_F(WatchTest, CountsOnlyWhatWasCertainlySilent) {
  (void)ReadOnce({9, 5, true}, milliseconds(1'900));
  EXPECT_THAT(ReadFor(milliseconds(6'500), {9, 5, true}), IsEmpty());
  now_ += milliseconds(499);
  EXPECT_THAT(ReadOnce({9, 5, true}, milliseconds(1'000)), IsEmpty());
  EXPECT_THAT(ReadOnce({9, 5, true}), ElementsAre(Watch::Silent{9, 5}));
}

TEST_F(WatchTest, AListKeepsWhatIsKnownOfThoseThatStayInIt) {
  EXPECT_THAT(ReadFor(milliseconds(7'000), {9, 5, true}), IsEmpty());
  EXPECT_THAT(List({{3, 1, true}, {9, 5, true}}), IsEmpty());
  EXPECT_THAT(watch_.watched(), ElementsAre(9, 3));
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), ElementsAre(Watch::Silent{9, 5}));
  (void)List({{3, 1, true}});
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), IsEmpty());
  (void)List({{9, 5, true}});
  EXPECT_THAT(ReadFor(milliseconds(500), {9, 5, true}), IsEmpty());
}

// Its neighbours may have died with it. The next ones of the ring come first.
TEST_F(WatchTest, WhoeverIsSilentInAllListsIsDeadAtMostSoManyAtOnce) {
  std::vector<Watch::Beat> streams;
  for (std::uint64_t one = 1; one <= 20; ++one) streams.push_back({one, 5, true});
  EXPECT_THAT(List(streams), IsEmpty());
  EXPECT_THAT(watch_.watched(), ElementsAre(8, 9, 10));
  for (int second = 0; second < 6; ++second) {
    now_ += milliseconds(1'000);
    EXPECT_THAT(List(streams), IsEmpty());
  }
  now_ += milliseconds(1'000);
  const auto silent = List(streams);
  ASSERT_EQ(silent.size(), limits::kDeclaredAtOnceMax);
  EXPECT_EQ(silent.front(), (Watch::Silent{8, 5}));
  EXPECT_EQ(silent.back(), (Watch::Silent{15, 5}));
  now_ += milliseconds(2'001);
  EXPECT_THAT(List(streams), IsEmpty()) << "nobody listed meanwhile";
}

TEST_F(WatchTest, WhatIsDeadBehindThreeThatLiveIsLeftToThese) {
  std::uint64_t beat = 1;
  std::vector<Watch::Silent> silent;
  for (int second = 0; second < 9; ++second) {
    silent = List({{8, 5, true},
                   {9, ++beat, true},
                   {10, 5, true},
                   {11, beat, true},
                   {12, 5, true},
                   {13, beat, true},
                   {14, 5, true}});
    now_ += milliseconds(1'000);
  }
  EXPECT_THAT(silent, ElementsAre(Watch::Silent{8, 5}, Watch::Silent{10, 5}, Watch::Silent{12, 5}));
}

TEST(ReconnectTest, PausesAreDrawnFromNoneToABoundThatDoubles) {
  EXPECT_EQ(ReconnectPause(1, 50), milliseconds(50));
  EXPECT_EQ(ReconnectPause(1, 51), milliseconds(0));
  EXPECT_EQ(ReconnectPause(2, 100), milliseconds(100));
  EXPECT_EQ(ReconnectPause(3, 200), milliseconds(200));
  for (int failures = 1; failures < 100; ++failures) {
    for (std::uint32_t jitter = 0; jitter < 10'000; jitter += 7) {
      EXPECT_LE(ReconnectPause(failures, jitter), milliseconds(2'000));
    }
  }
  EXPECT_EQ(ReconnectPause(1'000'000, 2'000), milliseconds(2'000));
}

}  // namespace
}  // namespace recourse::watch_test
