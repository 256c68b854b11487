// One clock for several machines: whatever their own say, and whatever becomes of it.
#include "proxy/base/shared_clock.h"

#include <gtest/gtest.h>

#include "tests/ledger/ledger_test_support.h"

namespace recourse::shared_clock_test {
namespace {

constexpr WallTime kNoon{std::chrono::hours(400'000)};

TEST(SharedClockTest, SaysTheOwnTimeUntilSomethingWasMeasured) {
  ManualClock own;
  const SharedClock clock(own);
  EXPECT_EQ(clock.WallNow(), own.WallNow());
  EXPECT_EQ(clock.Now(), own.Now());
}

TEST(SharedClockTest, GoesOnWithTheMonotonicClock) {
  ManualClock own;
  SharedClock clock(own);
  clock.Measure(kNoon, own.Now());
  EXPECT_EQ(clock.WallNow(), kNoon);
  own.Advance(Millis(1'500));
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(1'500));
}

TEST(SharedClockTest, IsNotCorrectedForWhatTheWayMayHaveTaken) {
  ManualClock own;
  SharedClock clock(own);
  clock.Measure(kNoon, own.Now());
  const MonoTime asked = own.Now();
  own.Advance(Millis(400));
  clock.Measure(kNoon + Millis(20), asked);
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(400));
}

// The answer was on its way for the rest: what happens now is not dated later than it is.
TEST(SharedClockTest, IsRatherLateThanEarly) {
  ManualClock own;
  SharedClock clock(own);
  const MonoTime asked = own.Now();
  own.Advance(Millis(300));
  clock.Measure(kNoon, asked);
  EXPECT_EQ(clock.WallNow(), kNoon);
  clock.Measure(kNoon + Millis(100), own.Now());
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(100));
}

TEST(SharedClockTest, FollowsForwardsAndStandsStillBackwards) {
  ManualClock own;
  SharedClock clock(own);
  clock.Measure(kNoon, own.Now());
  clock.Measure(kNoon + Millis(60'000), own.Now());
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(60'000));
  clock.Measure(kNoon + Millis(50'000), own.Now());
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(60'000));
  own.Advance(Millis(9'000));
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(60'000));
  own.Advance(Millis(2'000));
  EXPECT_EQ(clock.WallNow(), kNoon + Millis(61'000));
}

}  // namespace
}  // namespace recourse::shared_clock_test
