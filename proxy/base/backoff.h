// How long to wait before what has failed is tried again.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proxy/base/clock.h"

namespace recourse {

struct BackoffRule {
  Millis first;
  Millis max = std::chrono::hours(1);
};

// Doubles with each failure in a row; after the first, or none, it is `first`.
constexpr Millis BackoffBound(const BackoffRule& rule, int failures) {
  Millis bound = rule.first;
  for (int i = 1; i < failures && bound < rule.max; ++i) bound *= 2;
  return std::min(bound, rule.max);
}

// Half of that and a part of the other half, drawn by `jitter`, so that many do not come at once.
constexpr Millis Backoff(const BackoffRule& rule, int failures, std::uint32_t jitter) {
  const Millis half = BackoffBound(rule, failures) / 2;
  return half + Millis(jitter % static_cast<std::uint32_t>(half.count() + 1));
}

}  // namespace recourse
