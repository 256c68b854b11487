// The right of one stream's process to send, asked right before each byte goes to the kernel.
#pragma once

#include <mutex>

#include "filters/ledger/lease/lease.h"
#include "filters/ledger/lease/watchdog.h"
#include "proxy/base/send_permit.h"

namespace recourse {

// A process may be stopped between the question and the send, for longer than its lease: the
// watchdog is armed in between, and the clock read after that. It is armed for nothing else, so an
// attempt that awaits its backend does not end a process whose database is away. Thread-safe.
class SendGuard final : public SendPermit {
 public:
  // `watchdog` outlives it, and is used by it alone.
  explicit SendGuard(Watchdog& watchdog) : watchdog_(watchdog) {}

  // As Lease has it.
  void Acknowledge(BootTime sent);
  void End();

  bool Enter() override;
  void Leave() override;
  Millis Left() override;

 private:
  Watchdog& watchdog_;
  std::mutex mutex_;
  Lease lease_;      // guarded by mutex_
  int sending_ = 0;  // guarded by mutex_
};

}  // namespace recourse
