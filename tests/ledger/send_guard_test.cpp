#include "filters/ledger/lease/send_guard.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

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

// What `body` ends as in a process of its own, which stops itself once on its way.
int EndOf(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(WIFSTOPPED(status)) << status;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(KernelWatchdogTest, EndsAProcessThatIsStopped) {
  const int status = EndOf([] {
    KernelWatchdog watchdog;
    watchdog.Arm(watchdog.Now() + milliseconds(200));
    ::raise(SIGSTOP);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(KernelWatchdogTest, EndsAProcessThatWasStoppedBetweenTheQuestionAndTheSend) {
  const int status = EndOf([] {
    KernelWatchdog watchdog;
    SendGuard guard(watchdog);
    guard.Acknowledge(watchdog.Now() - milliseconds(3'000));
    if (guard.Enter()) ::raise(SIGSTOP);
    guard.Leave();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST(KernelWatchdogTest, EndsNobodyOnceItIsDisarmed) {
  const pid_t child = ::fork();
  if (child == 0) {
    KernelWatchdog watchdog;
    const BootTime at = watchdog.Now() + milliseconds(1'000);
    watchdog.Arm(at);
    watchdog.Disarm();
    while (watchdog.Now() < at + milliseconds(50)) ::poll(nullptr, 0, 10);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace recourse::send_guard_test
