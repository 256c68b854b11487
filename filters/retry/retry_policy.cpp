#include "filters/retry/retry_policy.h"

#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Refusals of our own also sent nothing, but another attempt would end the same way.
bool IsWorthRepeating(const Error& error) {
  return error.code() == ErrorCode::kNotSent && error.delivery() == Delivery::kNotSent;
}

}  // namespace

std::optional<Millis> PlanRetry(const RetryInputs& inputs) {
  if (!IsWorthRepeating(inputs.error) || inputs.attempts >= limits::kUnsentAttemptsMax) {
    return std::nullopt;
  }
  const Millis interval = limits::kUnsentBackoffFirst * (1 << (inputs.attempts - 1));
  const Millis half = interval / 2;
  const Millis wait = half + Millis(inputs.jitter % static_cast<std::uint32_t>(half.count() + 1));
  if (inputs.deadline != MonoTime{} && inputs.now + wait >= inputs.deadline) return std::nullopt;
  return wait;
}

}  // namespace recourse
