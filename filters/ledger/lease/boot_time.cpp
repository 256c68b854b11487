#include "filters/ledger/lease/boot_time.h"

#include <ctime>

namespace recourse {

BootClock::time_point BootClock::now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return time_point(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace recourse
