#include "filters/ledger/rules/clock_jumps.h"

#include <algorithm>
#include <cstdlib>

namespace recourse {

void ClockJumps::Note(std::uint64_t seq, MonoTime now, std::int64_t wall_ms) {
  if (first_seq_ == 0) first_seq_ = seq;
  const std::int64_t ahead_ms = AheadMs(now, wall_ms);
  const std::int64_t known_ms = jumps_.empty() ? 0 : jumps_.back().ahead_ms;
  if (std::llabs(ahead_ms - known_ms) < kNoticedMs) return;
  if (jumps_.size() == kJumpsMax) {
    // Of two neighbours the one less far ahead stands for both: rows seem younger for it.
    jumps_[0].ahead_ms = std::min(jumps_[0].ahead_ms, jumps_[1].ahead_ms);
    jumps_.erase(jumps_.begin() + 1);
  }
  jumps_.push_back({seq, ahead_ms});
}

std::int64_t ClockJumps::AgeMs(std::uint64_t seq, std::int64_t written_ms, MonoTime now,
                               std::int64_t wall_ms) const {
  const auto later =
      std::upper_bound(jumps_.begin(), jumps_.end(), seq,
                       [](std::uint64_t row, const Jump& jump) { return row < jump.from_seq; });
  const std::int64_t then_ms = later == jumps_.begin() ? 0 : std::prev(later)->ahead_ms;
  const std::int64_t age_ms = (wall_ms - written_ms) - (AheadMs(now, wall_ms) - then_ms);
  const bool is_earlier_runs = first_seq_ == 0 || seq < first_seq_;
  return is_earlier_runs ? std::max<std::int64_t>(age_ms, (now - start_) / Millis(1)) : age_ms;
}

}  // namespace recourse
