#include "filters/retry/retry_filter.h"

#include "filters/retry/retry_policy.h"

namespace recourse {

Task<Result<Outcome>> RetryFilter::Handle(RequestContext& context, Next next) {
  RetryInputs inputs;
  while (true) {
    Result<Outcome> outcome = co_await next(context);
    if (outcome) co_return outcome;
    inputs.error = outcome.error();
    inputs.deadline = context.deadline;
    inputs.now = clock_.Now();
    inputs.jitter = Jitter(random_);
    const std::optional<Millis> wait = PlanRetry(inputs);
    if (!wait) co_return outcome;
    co_await context.timer->SleepUntil(inputs.now + *wait);
    ++inputs.attempts;
  }
}

}  // namespace recourse
