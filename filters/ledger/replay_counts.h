// How often one answer was given again, since the process began.
#pragma once

#include <cstdint>
#include <map>

#include "proxy/base/limits.h"

namespace recourse {

class ReplayCounts {
 public:
  // With this one. Of many operations the oldest are forgotten.
  int Count(std::uint64_t operation) {
    const int count = ++counts_[operation];
    if (counts_.size() > limits::kReplaysCounted) counts_.erase(counts_.begin());
    return count;
  }

 private:
  std::map<std::uint64_t, int> counts_;
};

}  // namespace recourse
