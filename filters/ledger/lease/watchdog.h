// Ends this process, by the kernel, at a time: also while it is stopped, or frozen, and before it
// runs one instruction more.
#pragma once

#include <ctime>

#include "filters/ledger/lease/boot_time.h"

namespace recourse {

// For one thread at a time. Tests have clocks of their own.
class Watchdog {
 public:
  virtual ~Watchdog() = default;
  virtual BootTime Now() const = 0;
  // Takes the place of an earlier time.
  virtual void Arm(BootTime at) = 0;
  virtual void Disarm() = 0;
};

// A timer on CLOCK_BOOTTIME that sends SIGKILL. The first process of a PID namespace ignores that:
// it runs the ledger in a child (proxy/startup/supervisor.h).
class KernelWatchdog final : public Watchdog {
 public:
  // Throws std::system_error without a timer.
  KernelWatchdog();
  KernelWatchdog(const KernelWatchdog&) = delete;
  KernelWatchdog& operator=(const KernelWatchdog&) = delete;
  ~KernelWatchdog() override;
  BootTime Now() const override { return BootClock::now(); }
  void Arm(BootTime at) override;
  void Disarm() override;

 private:
  timer_t timer_{};
};

}  // namespace recourse
