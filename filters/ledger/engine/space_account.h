// How much of the disk the ledger has for itself, and when to ask it again.
#pragma once

#include <cstdint>

#include "filters/ledger/rows/event_log.h"
#include "proxy/base/clock.h"

namespace recourse {

// One thread at a time. `promised` is what has to fit for what has begun to end.
class SpaceAccount {
 public:
  SpaceAccount(EventLog& log, const Clock& clock) : log_(log), clock_(clock) {}

  std::uint64_t free_bytes() const { return free_bytes_; }
  // Whether rows of so many bytes fit beside what is promised.
  bool Has(std::uint64_t bytes, std::uint64_t promised);
  // Between two looks it is enough to know what was taken at most.
  void Take(std::uint64_t bytes, std::uint64_t promised);
  void Look(std::uint64_t promised);

 private:
  void Warn(int percent);

  EventLog& log_;
  const Clock& clock_;
  std::uint64_t free_bytes_ = 0;
  std::uint64_t wanted_ = 0;  // the most that was asked for since the last commit
  MonoTime looked_at_{};
  bool is_stale_ = false;  // something was committed since
  int warned_ = 0;         // percent
};

}  // namespace recourse
