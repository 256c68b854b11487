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
  // The shared clock was read at some time from `asked` until now. What that leaves open is no
  // reason to correct anything.
  void Measure(WallTime read, MonoTime asked) {
    const MonoTime now = own_.Now();
    const std::lock_guard lock(mutex_);
    const auto doubt = (now - asked) / 2;
    const WallTime shared = read + std::chrono::duration_cast<WallTime::duration>(doubt);
    if (zero_) {
      const WallTime known =
          *zero_ + std::chrono::duration_cast<WallTime::duration>(now.time_since_epoch());
      const auto error = shared > known ? shared - known : known - shared;
      if (error <= doubt + kToleratedError) return;
      floor_ = WallAt(now);
    }
    zero_ = shared - std::chrono::duration_cast<WallTime::duration>(now.time_since_epoch());
  }

 private:
  static constexpr Millis kToleratedError{20};

  WallTime WallAt(MonoTime now) const {
    if (!zero_) return own_.WallNow();
    return std::max(
        floor_, *zero_ + std::chrono::duration_cast<WallTime::duration>(now.time_since_epoch()));
  }

  const Clock& own_;
  mutable std::mutex mutex_;
  std::optional<WallTime> zero_;  // of the monotonic clock; guarded by mutex_
  WallTime floor_{};              // guarded by mutex_
};

}  // namespace recourse
