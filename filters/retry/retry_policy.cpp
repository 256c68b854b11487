#include "filters/retry/retry_policy.h"

#include "proxy/base/backoff.h"
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
  const Millis wait = Backoff({limits::kUnsentBackoffFirst}, inputs.attempts, inputs.jitter);
  if (inputs.deadline != MonoTime{} && inputs.now + wait >= inputs.deadline) return std::nullopt;
  return wait;
}

}  // namespace recourse
