#include "proxy/net/loop/deadline_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace recourse::deadline_test {
namespace {

using std::chrono::seconds;

struct Fired {
  int count = 0;
  static void Fire(void* self) { ++static_cast<Fired*>(self)->count; }
};

const MonoTime kStart{std::chrono::hours(1)};

// Calls Advance() when the wheel asks for it, and never else.
struct Asked {
  explicit Asked(DeadlineWheel& of) : wheel(of) {
    wheel.OnLook([](void* self, MonoTime when) { static_cast<Asked*>(self)->when = when; }, this);
  }
  // False: the wheel asks for nothing.
  bool Look() {
    if (!when) return false;
    now = std::max(now, *std::exchange(when, std::nullopt));
    ++looks;
    wheel.Advance(now);
    return true;
  }
  DeadlineWheel& wheel;
  std::optional<MonoTime> when;
  MonoTime now = kStart;
  int looks = 0;
};

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

TEST(DeadlineWheelTest, FiringMayDisarmAndMoveOthersOfTheSameTick) {
  DeadlineWheel wheel(kStart);
  struct Mover {
    Deadline *disarmed = nullptr, *later = nullptr, *sooner = nullptr;
    int count = 0;
  } mover;
  Fired disarmed, later, sooner;
  Deadline a(wheel, &Fired::Fire, &disarmed), b(wheel, &Fired::Fire, &later),
      c(wheel, &Fired::Fire, &sooner);
  mover.disarmed = &a;
  mover.later = &b;
  mover.sooner = &c;
  Deadline first(
      wheel,
      [](void* self) {
        auto* const mover = static_cast<Mover*>(self);
        ++mover->count;
        mover->disarmed->Disarm();
        mover->later->Arm(kStart + seconds(5));
        mover->sooner->Arm(kStart);
      },
      &mover);
  // Who was armed first fires first.
  for (Deadline* const deadline : {&first, &a, &b, &c}) deadline->Arm(kStart + Millis(60));
  wheel.Advance(kStart + seconds(2));
  EXPECT_EQ(mover.count + disarmed.count + later.count, 1);
  EXPECT_EQ(sooner.count, 1);
  wheel.Advance(kStart + seconds(6));
  EXPECT_EQ(later.count, 1);
  EXPECT_EQ(disarmed.count, 0);
  EXPECT_TRUE(wheel.empty());
}

// As the deadlines of a connection that is busy.
TEST(DeadlineWheelTest, OneThatMovesBackAgainAndAgainIsLookedAtOncePerPlace) {
  DeadlineWheel wheel(kStart);
  Asked asked(wheel);
  Fired fired;
  Deadline deadline(wheel, &Fired::Fire, &fired);
  std::size_t looked_at = 0;
  constexpr int kMoves = 10'000;
  for (int i = 0; i < kMoves; ++i) {
    const MonoTime now = kStart + Millis(i);
    looked_at += wheel.Advance(now);
    if (i % 2 == 0) deadline.Disarm();
    deadline.Arm(now + seconds(1));
  }
  EXPECT_LE(looked_at, 11U);
  EXPECT_EQ(fired.count, 0);
  const MonoTime due = kStart + Millis(kMoves - 1) + seconds(1);
  wheel.Advance(due - Millis(1));
  EXPECT_EQ(fired.count, 0);
  wheel.Advance(due + DeadlineWheel::kTick);
  EXPECT_EQ(fired.count, 1);
}

TEST(DeadlineWheelTest, WhatIsDueATurnLaterIsLookedAtOnceHoweverManyFire) {
  constexpr int kEach = 1'000;
  constexpr Millis kTurn = DeadlineWheel::kTick * 1'024;
  DeadlineWheel wheel(kStart);
  Fired due, later;
  std::vector<std::unique_ptr<Deadline>> deadlines;
  for (int i = 0; i < 2 * kEach; ++i) {
    const bool is_due = i < kEach;
    deadlines.push_back(std::make_unique<Deadline>(wheel, &Fired::Fire, is_due ? &due : &later));
    deadlines.back()->Arm(kStart + seconds(1) + (is_due ? Millis(0) : kTurn));
  }
  EXPECT_EQ(wheel.Advance(kStart + seconds(2)), 2U * kEach);
  EXPECT_EQ(due.count, kEach);
  EXPECT_EQ(later.count, 0);
  EXPECT_EQ(wheel.Advance(kStart + seconds(2) + kTurn), 1U * kEach);
  EXPECT_EQ(later.count, kEach);
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

TEST(DeadlineWheelTest, AsksForNoLookWhileNothingIsArmed) {
  DeadlineWheel wheel(kStart);
  Asked asked(wheel);
  EXPECT_FALSE(asked.when.has_value());
  Fired fired;
  Deadline deadline(wheel, &Fired::Fire, &fired);
  deadline.Arm(kStart + seconds(3));
  ASSERT_TRUE(asked.Look());
  EXPECT_EQ(fired.count, 1);
  EXPECT_GE(asked.now, kStart + seconds(3));
  EXPECT_LE(asked.now, kStart + seconds(3) + DeadlineWheel::kTick);
  EXPECT_FALSE(asked.when.has_value());
  deadline.Arm(kStart + seconds(9));
  deadline.Disarm();
  EXPECT_TRUE(asked.Look());  // it was asked for before
  EXPECT_FALSE(asked.Look());
}

TEST(DeadlineWheelTest, AsksAnewOnlyForWhatIsSooner) {
  DeadlineWheel wheel(kStart);
  Asked asked(wheel);
  Fired fired;
  Deadline first(wheel, &Fired::Fire, &fired), later(wheel, &Fired::Fire, &fired),
      sooner(wheel, &Fired::Fire, &fired);
  first.Arm(kStart + seconds(5));
  const auto at_first = std::exchange(asked.when, std::nullopt);
  ASSERT_TRUE(at_first.has_value());
  later.Arm(kStart + seconds(6));
  EXPECT_FALSE(asked.when.has_value());
  sooner.Arm(kStart + seconds(2));
  ASSERT_TRUE(asked.when.has_value());
  EXPECT_LT(*asked.when, *at_first);
  while (asked.Look()) {
  }
  EXPECT_EQ(fired.count, 3);
  EXPECT_EQ(asked.looks, 3);
}

TEST(DeadlineWheelTest, LooseDeadlinesEndTogetherAndNotTooEarly) {
  DeadlineWheel wheel(kStart);
  Asked asked(wheel);
  Fired fired;
  std::vector<std::unique_ptr<Deadline>> crowd;
  for (int i = 0; i < 100; ++i) {
    crowd.push_back(std::make_unique<Deadline>(wheel, &Fired::Fire, &fired));
    crowd.back()->ArmLoosely(kStart + seconds(20) + Millis(1 + 10 * i));
  }
  ASSERT_TRUE(asked.Look());
  EXPECT_GE(asked.now, kStart + seconds(20) + Millis(991));
  EXPECT_LE(asked.now, kStart + seconds(21) + DeadlineWheel::kTick);
  EXPECT_EQ(fired.count, 100);
  EXPECT_FALSE(asked.Look());
}

// Whatever is armed when: nothing fires early, late, or never, though the wheel stands still
// between the looks that it asks for.
TEST(DeadlineWheelTest, FiresInTimeWhenItIsLookedAtOnlyWhenItAsks) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 50; ++round) {
    DeadlineWheel wheel(kStart);
    Asked asked(wheel);
    struct One {
      Asked* asked = nullptr;
      MonoTime due{};
      int count = 0;
      static void Fire(void* self) {
        auto* const one = static_cast<One*>(self);
        ++one->count;
        EXPECT_GE(one->asked->now, one->due);
        EXPECT_LE(one->asked->now, one->due + DeadlineWheel::kTick);
      }
    };
    std::vector<One> ones(40, One{&asked});
    std::vector<std::unique_ptr<Deadline>> deadlines;
    for (One& one : ones) {
      deadlines.push_back(std::make_unique<Deadline>(wheel, &One::Fire, &one));
    }
    for (std::size_t i = 0; i < ones.size(); ++i) {
      const auto ahead = Millis(random() % (i % 4 == 0 ? 200'000 : 3'000));
      ones[i].due = asked.now + ahead;
      deadlines[i]->Arm(ones[i].due);
      if (i % 8 == 7) asked.Look();  // time goes on while others are armed
    }
    while (asked.Look()) {
    }
    for (const One& one : ones) EXPECT_EQ(one.count, 1);
    EXPECT_TRUE(wheel.empty());
  }
}

// The same while they are disarmed, and armed for sooner and for later, at any time.
TEST(DeadlineWheelTest, FiresInTimeHoweverOftenItIsMoved) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 50; ++round) {
    DeadlineWheel wheel(kStart);
    Asked asked(wheel);
    struct One {
      Asked* asked = nullptr;
      std::optional<MonoTime> due;  // none: it is not armed
      static void Fire(void* self) {
        auto* const one = static_cast<One*>(self);
        ASSERT_TRUE(one->due.has_value());
        EXPECT_GE(one->asked->now, *one->due);
        EXPECT_LE(one->asked->now, *one->due + DeadlineWheel::kTick);
        one->due.reset();
      }
    };
    std::vector<One> ones(20, One{&asked, {}});
    std::vector<std::unique_ptr<Deadline>> deadlines;
    for (One& one : ones) {
      deadlines.push_back(std::make_unique<Deadline>(wheel, &One::Fire, &one));
    }
    for (int step = 0; step < 2'000; ++step) {
      const std::size_t i = random() % ones.size();
      if (random() % 4 == 0) {
        ones[i].due.reset();
        deadlines[i]->Disarm();
      } else {
        ones[i].due = asked.now + Millis(random() % (random() % 8 == 0 ? 120'000 : 2'000));
        deadlines[i]->Arm(*ones[i].due);
      }
      // Time passes, but not beyond what the wheel has asked for.
      if (random() % 3 == 0) {
        const MonoTime next = asked.now + Millis(random() % 400);
        if (!asked.when || next < *asked.when) {
          asked.now = next;
        } else {
          asked.Look();
        }
      }
    }
    while (asked.Look()) {
    }
    for (const One& one : ones) EXPECT_FALSE(one.due.has_value());
    EXPECT_TRUE(wheel.empty());
  }
}

}  // namespace
}  // namespace recourse::deadline_test
