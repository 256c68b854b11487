// Dispatches again while nothing was sent. Attempts of one call share one DISPATCHING event.
#pragma once

#include "filters/filter.h"
#include "proxy/base/clock.h"
#include "proxy/base/random.h"

namespace recourse {

class RetryFilter final : public Filter {
 public:
  // Both outlive the filter.
  RetryFilter(const Clock& clock, Random& random) : clock_(clock), random_(random) {}
  std::string_view name() const override { return "retry"; }
  // At most kUnsentAttemptsMax attempts, all before context.deadline; waits on context.timer.
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;

 private:
  const Clock& clock_;
  Random& random_;
};

}  // namespace recourse
