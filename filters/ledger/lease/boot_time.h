// Time since the machine was started, sleep included: by it a lease ends while a process, or its
// machine, is paused.
#pragma once

#include <chrono>

namespace recourse {

struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept;
};
using BootTime = BootClock::time_point;

}  // namespace recourse
