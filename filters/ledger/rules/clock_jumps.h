// How old a row is when the wall clock cannot be trusted. Within one run of the process only time
// that was lived through counts, so a clock that is set forward ends no window early (faults c01).
// Between two runs there is nothing but the wall clock to go by; a row of an earlier one is at
// least as old as this one.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/base/clock.h"

namespace recourse {

// One thread at a time.
class ClockJumps {
 public:
  // Coarser than any adjustment that is no jump, finer than any window.
  static constexpr std::int64_t kNoticedMs = 500;

  // `start`, `wall_ms`: both clocks when the process began.
  ClockJumps(MonoTime start, std::int64_t wall_ms) : start_(start), wall_ms_(wall_ms) {}

  // A row `seq` is being written now. Rows come in ascending order.
  void Note(std::uint64_t seq, MonoTime now, std::int64_t wall_ms);
  // Milliseconds since row `seq` was written at `written_ms`. Never more than were lived through
  // since then, if the row is of this run, and never less than this run has lasted if it is not.
  std::int64_t AgeMs(std::uint64_t seq, std::int64_t written_ms, MonoTime now,
                     std::int64_t wall_ms) const;

 private:
  // From row `from_seq` on the wall clock was this far ahead of where it should have been.
  struct Jump {
    std::uint64_t from_seq = 0;
    std::int64_t ahead_ms = 0;
  };
  static constexpr std::size_t kJumpsMax = 256;

  std::int64_t AheadMs(MonoTime now, std::int64_t wall_ms) const {
    return wall_ms - wall_ms_ - (now - start_) / Millis(1);
  }

  const MonoTime start_;
  const std::int64_t wall_ms_;
  std::uint64_t first_seq_ = 0;  // of this run; 0: it has written none
  std::vector<Jump> jumps_;      // ascending
};

}  // namespace recourse
