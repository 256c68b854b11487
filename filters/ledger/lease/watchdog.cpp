#include "filters/ledger/lease/watchdog.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "proxy/base/check.h"
#include "proxy/base/crash_point.h"

namespace recourse {

KernelWatchdog::KernelWatchdog() {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  if (::timer_create(CLOCK_BOOTTIME, &event, &timer_) != 0) {
    throw std::system_error(errno, std::system_category(), "timer_create");
  }
}

KernelWatchdog::~KernelWatchdog() { ::timer_delete(timer_); }

void KernelWatchdog::Arm(BootTime at) {
  if (RC_HAS_NO_WATCHDOG()) return;
  const auto since_boot = at.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = (since_boot - seconds).count();
  RC_CHECK(::timer_settime(timer_, TIMER_ABSTIME, &when, nullptr) == 0);
}

void KernelWatchdog::Disarm() {
  const itimerspec never{};
  RC_CHECK(::timer_settime(timer_, 0, &never, nullptr) == 0);
}

}  // namespace recourse
