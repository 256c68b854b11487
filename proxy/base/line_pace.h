// Keeps a line that anybody can cause from filling the log.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "proxy/base/clock.h"

namespace recourse {

// At most one line a second. Used on one thread.
class LinePace {
 public:
  // To be asked for each line: how many it stands for, itself among them; nullopt: it is left out.
  std::optional<std::size_t> Take(MonoTime now) {
    ++waiting_;
    if (now < next_) return std::nullopt;
    next_ = now + std::chrono::seconds(1);
    return std::exchange(waiting_, 0);
  }

 private:
  MonoTime next_{};
  std::size_t waiting_ = 0;
};

}  // namespace recourse
