// How much of a stock nobody needed for a while.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace recourse {

// The lowest that a stock stood at since the last look: so much of it was in nobody's way. What a
// crowd needed a moment ago is kept for its next turn, and let go when the crowd is gone.
class LowWatermark {
 public:
  // Something was taken, and `left` of it are left.
  void Took(std::size_t left) { lowest_ = std::min(lowest_, left); }
  // How many of `stock`, `most` at once, may go so that `floor` stay; they are to be gone when this
  // is called next.
  std::size_t Look(std::size_t stock, std::size_t floor, std::size_t most = SIZE_MAX) {
    const std::size_t idle = std::min({lowest_, stock > floor ? stock - floor : 0, most});
    lowest_ = stock - idle;
    return idle;
  }

 private:
  std::size_t lowest_ = 0;
};

}  // namespace recourse
