// How long a stream may send without a word of the database, and when it has to tell that it lives.
// Pure.
#pragma once

#include <algorithm>
#include <optional>

#include "filters/ledger/lease/boot_time.h"
#include "proxy/base/lease_limits.h"

namespace recourse {

// Counts from the sending of a batch, whatever became of its answer on the way: who watches has
// seen the beat of that batch later than it was sent.
class Lease {
 public:
  // A batch whose bytes were first sent at `sent`, as one in doubt may be sent again.
  void Acknowledge(BootTime sent) { end_ = std::max(end_, sent + limits::kLease); }
  // Another process has taken the stream over.
  void End() { is_over_ = true; }

  BootTime end() const { return end_; }
  bool MaySend(BootTime now) const { return !is_over_ && now < end_ - limits::kSendMargin; }
  BootClock::duration Left(BootTime now) const {
    return is_over_ || now >= end_ ? BootClock::duration::zero() : end_ - now;
  }

 private:
  BootTime end_{};  // of none: the time of the start
  bool is_over_ = false;
};

// When an empty batch has to go. `is_open`: something is, or the last batch has told so; nullopt:
// never, as nobody watches.
inline std::optional<BootTime> BeatDue(bool is_open, BootTime last_sent) {
  if (!is_open) return std::nullopt;
  return last_sent + limits::kBeatEvery;
}

}  // namespace recourse
