// When a write may be dispatched again within one call: only if the attempt provably sent nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "proxy/base/clock.h"
#include "proxy/base/error.h"

namespace recourse {

struct RetryInputs {
  int attempts = 1;  // made so far
  Error error;       // of the last one
  MonoTime now{};
  MonoTime deadline{};       // MonoTime{}: none
  std::uint32_t jitter = 0;  // uniformly random
};

// How long to wait before the next attempt; nullopt: there is none. Each wait is drawn from the
// upper half of a doubling interval, so that repeats of many callers spread.
std::optional<Millis> PlanRetry(const RetryInputs& inputs);

}  // namespace recourse
