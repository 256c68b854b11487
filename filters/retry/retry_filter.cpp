#include "filters/retry/retry_filter.h"

#include <array>
#include <cstring>

#include "filters/retry/retry_policy.h"

namespace recourse {

std::uint32_t RetryFilter::Jitter() {
  std::array<unsigned char, sizeof(std::uint32_t)> raw{};
  random_.Fill(raw);
  std::uint32_t value = 0;
  std::memcpy(&value, raw.data(), raw.size());
  return value;
}

Task<Result<Outcome>> RetryFilter::Handle(RequestContext& context, Next next) {
  RetryInputs inputs;
  while (true) {
    Result<Outcome> outcome = co_await next(context);
    if (outcome) co_return outcome;
    inputs.error = outcome.error();
    inputs.deadline = context.deadline;
    inputs.now = clock_.Now();
    inputs.jitter = Jitter();
    const std::optional<Millis> wait = PlanRetry(inputs);
    if (!wait) co_return outcome;
    co_await context.timer->SleepUntil(inputs.now + *wait);
    ++inputs.attempts;
  }
}

}  // namespace recourse
