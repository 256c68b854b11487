// How old rows are, in time that was lived through: the wall clock has no say, so nothing is
// forgotten early when it jumps (faults c01). Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "proxy/base/clock.h"

namespace recourse {

// The ledger's own clock stands still while no process runs. Marks say which row was the last one
// at a time of that clock; rows between two marks count as old as the later one.
class RowAges {
 public:
  // `now`: the process' clock, from which lived time is counted on. `bytes`: what Encode gave
  // before; when they are empty or damaged, everything up to `last_seq` begins to age now.
  RowAges(std::string_view bytes, std::uint64_t last_seq, MonoTime now);

  // Milliseconds lived through since the ledger was created.
  std::int64_t LivedMs(MonoTime now) const { return lived_ms_ + (now - started_) / Millis(1); }
  // Sets a mark, at most once in `spacing`. True: there is something new to Encode.
  bool Mark(MonoTime now, std::uint64_t last_seq, Millis spacing);
  // The last row that is known to be at least this old; 0: none.
  std::uint64_t OldThrough(MonoTime now, Millis age) const;
  // When that row was the last one, at the latest; 0 when nothing is marked.
  std::int64_t OldestMs() const { return marks_.empty() ? 0 : marks_.front().lived_ms; }
  // At least so old is the row; 0: nothing is marked behind it.
  std::int64_t LeastAgeMs(MonoTime now, std::uint64_t seq) const;
  // Rows up to `through` are gone.
  void Forget(std::uint64_t through);
  std::string Encode(MonoTime now) const;

 private:
  struct SetMark {
    std::uint64_t seq = 0;
    std::int64_t lived_ms = 0;
  };

  const MonoTime started_;
  std::int64_t lived_ms_ = 0;  // until started_
  std::int64_t noted_ms_ = 0;  // of the last Mark that did something
  std::deque<SetMark> marks_;  // both members ascend
};

}  // namespace recourse
