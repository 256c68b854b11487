#include "filters/ledger/lease/send_guard.h"

#include <chrono>

#include "proxy/base/check.h"

namespace recourse {

void SendGuard::Acknowledge(BootTime sent) {
  const std::lock_guard lock(mutex_);
  lease_.Acknowledge(sent);
  if (sending_ > 0) watchdog_.Arm(lease_.end());
}

void SendGuard::End() {
  const std::lock_guard lock(mutex_);
  lease_.End();
}

bool SendGuard::Enter() {
  const std::lock_guard lock(mutex_);
  // A time that has passed would end the process at once, though nothing has gone wrong.
  if (!lease_.MaySend(watchdog_.Now())) return false;
  if (++sending_ == 1) watchdog_.Arm(lease_.end());
  if (lease_.MaySend(watchdog_.Now())) return true;
  if (--sending_ == 0) watchdog_.Disarm();
  return false;
}

void SendGuard::Leave() {
  const std::lock_guard lock(mutex_);
  RC_CHECK(sending_ > 0);
  if (--sending_ == 0) watchdog_.Disarm();
}

Millis SendGuard::Left() {
  const std::lock_guard lock(mutex_);
  return std::chrono::floor<Millis>(lease_.Left(watchdog_.Now()));
}

}  // namespace recourse
