// The clock of what several machines share: they measure it against their own, and agree.
#pragma once

#include <algorithm>
#include <mutex>
#include <optional>

#include "proxy/base/clock.h"

namespace recourse {

// Its wall time goes on with the monotonic clock between measurements, and never goes back: where
// the shared one does, it stands still until that has caught up. Thread-safe.
class SharedClock final : public Clock {
 public:
  // `own` outlives it, and is what it says until something was measured.
  explicit SharedClock(const Clock& own) : own_(own) {}

  MonoTime Now() const override { return own_.Now(); }
  WallTime WallNow() const override {
    const std::lock_guard lock(mutex_);
    return WallAt(own_.Now());
  }
  // The shared clock was read at some time from `asked` until now. What is within that is no reason
  // to correct anything. It is rather late than early: nothing is dated after it has happened.
  void Measure(WallTime read, MonoTime asked) {
    const MonoTime now = own_.Now();
    const std::lock_guard lock(mutex_);
    if (zero_) {
      const WallTime known = *zero_ + SinceZero(now);
      const bool is_late = known < read;
      const bool is_early = known > read + SinceZero(MonoTime(now - asked)) + kToleratedError;
      if (!is_late && !is_early) return;
      floor_ = WallAt(now);
    }
    zero_ = read - SinceZero(now);
  }

 private:
  static constexpr Millis kToleratedError{20};

  static WallTime::duration SinceZero(MonoTime now) {
    return std::chrono::duration_cast<WallTime::duration>(now.time_since_epoch());
  }
  WallTime WallAt(MonoTime now) const {
    return zero_ ? std::max(floor_, *zero_ + SinceZero(now)) : own_.WallNow();
  }

  const Clock& own_;
  mutable std::mutex mutex_;
  std::optional<WallTime> zero_;  // of the monotonic clock; guarded by mutex_
  WallTime floor_{};              // guarded by mutex_
};

}  // namespace recourse
