#include "filters/ledger/lease/send_guard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <optional>

namespace recourse::send_guard_test {
namespace {

using std::chrono::milliseconds;
constexpr BootTime kStart{std::chrono::hours(1)};

class ScriptedWatchdog final : public Watchdog {
 public:
  BootTime Now() const override { return now; }
  void Arm(BootTime at) override {
    armed = at;
    if (while_arming) while_arming();
  }
  void Disarm() override { armed.reset(); }

  BootTime now = kStart;
  std::optional<BootTime> armed;
  std::function<void()> while_arming;
};

class SendGuardTest : public ::testing::Test {
 protected:
  ScriptedWatchdog watchdog_;
  SendGuard guard_{watchdog_};
};

TEST_F(SendGuardTest, LetsNothingGoWithoutALease) {
  EXPECT_FALSE(guard_.Enter());
  EXPECT_FALSE(watchdog_.armed);
}

TEST_F(SendGuardTest, TheWatchdogIsArmedToTheLeasesEndWhileBytesGo) {
  guard_.Acknowledge(kStart);
  EXPECT_FALSE(watchdog_.armed);
  ASSERT_TRUE(guard_.Enter());
  EXPECT_EQ(watchdog_.armed, kStart + milliseconds(5'000));
  guard_.Leave();
  EXPECT_FALSE(watchdog_.armed);
}

TEST_F(SendGuardTest, NoTimeThatHasPassedIsArmed) {
  guard_.Acknowledge(kStart);
  watchdog_.now = kStart + milliseconds(4'750);
  EXPECT_FALSE(guard_.Enter());
  EXPECT_FALSE(watchdog_.armed);
}

// The process may be stopped there; the kernel ends it only at the lease's very end.
TEST_F(SendGuardTest, TheClockIsReadAgainOnceTheWatchdogIsArmed) {
  guard_.Acknowledge(kStart);
  watchdog_.while_arming = [this] { watchdog_.now = kStart + milliseconds(4'900); };
  EXPECT_FALSE(guard_.Enter());
  EXPECT_FALSE(watchdog_.armed);
}

TEST_F(SendGuardTest, OneOfSeveralThreadsDoesNotDisarmForTheOthers) {
  guard_.Acknowledge(kStart);
  ASSERT_TRUE(guard_.Enter());
  ASSERT_TRUE(guard_.Enter());
  guard_.Leave();
  EXPECT_EQ(watchdog_.armed, kStart + milliseconds(5'000));
  guard_.Leave();
  EXPECT_FALSE(watchdog_.armed);
}

TEST_F(SendGuardTest, AnAnswerOfTheDatabaseMovesTheEndOnlyOfWhatIsArmed) {
  guard_.Acknowledge(kStart);
  ASSERT_TRUE(guard_.Enter());
  guard_.Acknowledge(kStart + milliseconds(1'000));
  EXPECT_EQ(watchdog_.armed, kStart + milliseconds(6'000));
  guard_.Leave();
  guard_.Acknowledge(kStart + milliseconds(2'000));
  EXPECT_FALSE(watchdog_.armed);
}

TEST_F(SendGuardTest, NothingGoesOnceTheStreamIsTakenOver) {
  guard_.Acknowledge(kStart);
  guard_.End();
  EXPECT_FALSE(guard_.Enter());
}

// Whoever takes over sends nothing before that is over, and the kernel sends nothing after it.
TEST_F(SendGuardTest, WhatTheKernelHasMayGoOnUntilTheLeaseEnds) {
  EXPECT_EQ(guard_.Left(), Millis(0));
  guard_.Acknowledge(kStart);
  watchdog_.now = kStart + milliseconds(3'000);
  EXPECT_EQ(guard_.Left(), Millis(2'000));
  watchdog_.now = kStart + milliseconds(5'001);
  EXPECT_EQ(guard_.Left(), Millis(0));
  guard_.Acknowledge(kStart + milliseconds(4'000));
  EXPECT_EQ(guard_.Left(), Millis(3'999));
  guard_.End();
  EXPECT_EQ(guard_.Left(), Millis(0));
}

// What `body` ends as in a process of its own, which stops itself once on its way. nullopt: it did
// not come that far.
std::optional<int> EndOf(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  if (!WIFSTOPPED(status)) return std::nullopt;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

// With more time in each turn: this machine may stand still for longer than the first ones give.
const std::array kTurns = {milliseconds(200), milliseconds(1'000), milliseconds(4'000),
                           milliseconds(16'000)};

TEST(KernelWatchdogTest, EndsAProcessThatIsStopped) {
  std::optional<int> status;
  for (const milliseconds wait : kTurns) {
    if (status) break;
    status = EndOf([wait] {
      KernelWatchdog watchdog;
      watchdog.Arm(watchdog.Now() + wait);
      ::raise(SIGSTOP);
    });
  }
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) << *status;
}

TEST(KernelWatchdogTest, EndsAProcessThatWasStoppedBetweenTheQuestionAndTheSend) {
  std::optional<int> status;
  for (const int age : {3'000, 2'000, 1'000, 0, 0, 0}) {
    if (status) break;
    status = EndOf([age] {
      KernelWatchdog watchdog;
      SendGuard guard(watchdog);
      guard.Acknowledge(watchdog.Now() - milliseconds(age));
      if (guard.Enter()) ::raise(SIGSTOP);
      guard.Leave();
    });
  }
  ASSERT_TRUE(status);
  EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) << *status;
}

int EndOfOneThatIsDisarmed(milliseconds wait) {
  const pid_t child = ::fork();
  if (child == 0) {
    KernelWatchdog watchdog;
    const BootTime at = watchdog.Now() + wait;
    watchdog.Arm(at);
    watchdog.Disarm();
    while (watchdog.Now() < at + milliseconds(50)) ::poll(nullptr, 0, 10);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(KernelWatchdogTest, EndsNobodyOnceItIsDisarmed) {
  int status = -1;
  for (const milliseconds wait : kTurns) {
    if (status != 0) status = EndOfOneThatIsDisarmed(wait);
  }
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace recourse::send_guard_test
