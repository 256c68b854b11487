#include "proxy/net/deadline.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace recourse {
namespace {

using std::chrono::seconds;

struct Fired {
  int count = 0;
  static void Fire(void* self) { ++static_cast<Fired*>(self)->count; }
};

const MonoTime kStart{std::chrono::hours(1)};

TEST(DeadlineWheelTest, FiresNotBeforeItsTimeAndAtMostOneTickLate) {
  DeadlineWheel wheel(kStart);
  Fired fired;
  Deadline deadline(wheel, &Fired::Fire, &fired);
  deadline.Arm(kStart + Millis(120));
  wheel.Advance(kStart + Millis(119));
  EXPECT_EQ(fired.count, 0);
  EXPECT_FALSE(deadline.expired());
  wheel.Advance(kStart + Millis(120) + DeadlineWheel::kTick);
  EXPECT_EQ(fired.count, 1);
  EXPECT_TRUE(deadline.expired());
  EXPECT_TRUE(wheel.empty());
}

TEST(DeadlineWheelTest, OneThatIsDisarmedOrArmedAnewDoesNotFireAtItsOldTime) {
  DeadlineWheel wheel(kStart);
  Fired disarmed, moved;
  Deadline first(wheel, &Fired::Fire, &disarmed);
  Deadline second(wheel, &Fired::Fire, &moved);
  first.Arm(kStart + Millis(100));
  second.Arm(kStart + Millis(100));
  first.Disarm();
  second.Arm(kStart + seconds(5));
  wheel.Advance(kStart + seconds(1));
  EXPECT_EQ(disarmed.count + moved.count, 0);
  wheel.Advance(kStart + seconds(6));
  EXPECT_EQ(disarmed.count, 0);
  EXPECT_EQ(moved.count, 1);
}

TEST(DeadlineWheelTest, DeadlinesFurtherThanOneTurnWaitTheirTurns) {
  DeadlineWheel wheel(kStart);
  Fired fired;
  Deadline deadline(wheel, &Fired::Fire, &fired);
  deadline.Arm(kStart + seconds(300));
  for (int second = 1; second < 300; ++second) wheel.Advance(kStart + seconds(second));
  EXPECT_EQ(fired.count, 0);
  wheel.Advance(kStart + seconds(301));
  EXPECT_EQ(fired.count, 1);
}

TEST(DeadlineWheelTest, AStallLongerThanATurnFiresEverythingThatIsDue) {
  DeadlineWheel wheel(kStart);
  std::vector<std::unique_ptr<Fired>> fired;
  std::vector<std::unique_ptr<Deadline>> deadlines;
  for (int i = 0; i < 100; ++i) {
    fired.push_back(std::make_unique<Fired>());
    deadlines.push_back(std::make_unique<Deadline>(wheel, &Fired::Fire, fired.back().get()));
    deadlines.back()->Arm(kStart + seconds(i));
  }
  wheel.Advance(kStart + seconds(1000));
  for (const auto& one : fired) EXPECT_EQ(one->count, 1);
}

TEST(DeadlineWheelTest, FiringMayDestroyAndArmOthersOfTheSameTick) {
  DeadlineWheel wheel(kStart);
  Fired unused;
  struct Killer {
    std::unique_ptr<Deadline> victim;
    int count = 0;
  } killer;
  const auto kill = [](void* self) {
    auto* const killer = static_cast<Killer*>(self);
    killer->victim.reset();
    ++killer->count;
  };
  Deadline first(wheel, kill, &killer);
  Deadline second(wheel, kill, &killer);
  killer.victim = std::make_unique<Deadline>(wheel, &Fired::Fire, &unused);
  first.Arm(kStart + Millis(60));
  killer.victim->Arm(kStart + Millis(60));
  second.Arm(kStart + Millis(60));
  wheel.Advance(kStart + seconds(1));
  EXPECT_EQ(killer.count, 2);
  EXPECT_TRUE(wheel.empty());
}

TEST(DeadlineWheelTest, ADeadlineInThePastFiresAtTheNextTick) {
  DeadlineWheel wheel(kStart);
  wheel.Advance(kStart + seconds(10));
  Fired fired;
  Deadline deadline(wheel, &Fired::Fire, &fired);
  deadline.Arm(kStart + seconds(1));
  wheel.Advance(kStart + seconds(10) + DeadlineWheel::kTick);
  EXPECT_EQ(fired.count, 1);
}

}  // namespace
}  // namespace recourse
