// The first process of a PID namespace, for real: namespaces take root.
#include "proxy/startup/supervisor.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "filters/ledger/lease/watchdog.h"

namespace recourse::supervisor_test {
namespace {

using std::chrono::milliseconds;

// The first process of a namespace of its own, which calls WorkInChildOfFirst(); `work` is what it
// does then. Its number here; -1: this process may make no namespaces.
pid_t StartFirst(const std::function<void()>& work) {
  int numbers[2];
  EXPECT_EQ(::pipe(numbers), 0);
  const pid_t outer = ::fork();
  if (outer == 0) {
    pid_t first = -1;
    if (::unshare(CLONE_NEWPID) == 0) first = ::fork();
    if (first == 0) {
      WorkInChildOfFirst();
      work();
      ::_exit(0);
    }
    (void)!::write(numbers[1], &first, sizeof first);
    int status = 0;
    if (first > 0) ::waitpid(first, &status, 0);
    ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
  }
  pid_t first = -1;
  EXPECT_EQ(::read(numbers[0], &first, sizeof first), static_cast<ssize_t>(sizeof first));
  ::close(numbers[0]);
  ::close(numbers[1]);
  if (first < 0) ::waitpid(outer, nullptr, 0);
  return first;
}

int ExitCodeOfFirst() {
  int status = 0;
  EXPECT_GT(::wait(&status), 0);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WEXITSTATUS(status);
}

#define RC_NEEDS_NAMESPACES(first) \
  if ((first) < 0) GTEST_SKIP() << "no PID namespaces may be made here"

TEST(SupervisorTest, ElsewhereNothingIsForked) {
  const pid_t before = ::getpid();
  WorkInChildOfFirst();
  EXPECT_EQ(::getpid(), before);
}

TEST(SupervisorTest, TheFirstProcessEndsWithTheExitCodeOfTheOneThatWorks) {
  const pid_t first = StartFirst([] { ::_exit(::getpid() == 1 ? 1 : 78); });
  RC_NEEDS_NAMESPACES(first);
  EXPECT_EQ(ExitCodeOfFirst(), 78);
}

TEST(SupervisorTest, TheWatchdogEndsWhoWorksEvenWhereItIsStopped) {
  const pid_t first = StartFirst([] {
    KernelWatchdog watchdog;
    watchdog.Arm(watchdog.Now() + milliseconds(200));
    ::raise(SIGSTOP);
  });
  RC_NEEDS_NAMESPACES(first);
  EXPECT_EQ(ExitCodeOfFirst(), 128 + SIGKILL);
}

TEST(SupervisorTest, SignalsArePassedOn) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t first = StartFirst([&] {
    sigset_t term;
    ::sigemptyset(&term);
    ::sigaddset(&term, SIGTERM);
    ::sigprocmask(SIG_BLOCK, &term, nullptr);
    (void)!::write(ready[1], "r", 1);
    int signal = 0;
    ::sigwait(&term, &signal);
    ::_exit(signal == SIGTERM ? 3 : 4);
  });
  RC_NEEDS_NAMESPACES(first);
  char byte;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(::kill(first, SIGTERM), 0);
  EXPECT_EQ(ExitCodeOfFirst(), 3);
}

TEST(SupervisorTest, OrphansAreWaitedFor) {
  const pid_t first = StartFirst([] {
    int gone[2];
    if (::pipe(gone) != 0) ::_exit(1);
    const pid_t middle = ::fork();
    if (middle == 0) {
      const pid_t orphan = ::fork();
      if (orphan == 0) ::_exit(0);
      (void)!::write(gone[1], &orphan, sizeof orphan);
      ::_exit(0);
    }
    ::waitpid(middle, nullptr, 0);
    pid_t orphan = 0;
    (void)!::read(gone[0], &orphan, sizeof orphan);
    while (::kill(orphan, 0) == 0) ::poll(nullptr, 0, 1);
    ::_exit(7);
  });
  RC_NEEDS_NAMESPACES(first);
  EXPECT_EQ(ExitCodeOfFirst(), 7);
}

}  // namespace
}  // namespace recourse::supervisor_test
