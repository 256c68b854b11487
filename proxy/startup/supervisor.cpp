#include "proxy/startup/supervisor.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <system_error>

namespace recourse {
namespace {

// Waits for all that have ended. The exit code of `worker`, if that is among them.
std::optional<int> ReapChildren(pid_t worker) {
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended <= 0) return std::nullopt;
    if (ended != worker) continue;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
}

[[noreturn]] void Supervise(pid_t worker, const sigset_t& signals) {
  for (;;) {
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal == SIGCHLD) {
      if (const auto code = ReapChildren(worker)) std::_Exit(*code);
    } else if (signal > 0) {
      (void)::kill(worker, signal);
    }
  }
}

}  // namespace

void WorkInChildOfFirst() {
  if (::getpid() != 1) return;
  sigset_t all, before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t worker = ::fork();
  if (worker < 0) throw std::system_error(errno, std::system_category(), "fork");
  if (worker > 0) Supervise(worker, all);
  // A terminal's signals come by the first process alone, or each would come twice.
  (void)::setpgid(0, 0);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace recourse
