// Where everything random in a simulated run comes from: the same seed gives the same run.
#pragma once

#include <cstdint>
#include <random>

#include "proxy/base/clock.h"

namespace recourse {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  unsigned Below(unsigned bound) { return static_cast<unsigned>(engine_() % bound); }
  bool Percent(unsigned chance) { return Below(100) < chance; }
  Millis Time(unsigned most_ms) { return Millis(Below(most_ms + 1)); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace recourse
