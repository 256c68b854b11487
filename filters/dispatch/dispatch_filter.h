// The end of the chain: one attempt on a connection, after its DISPATCHING event is durable.
#pragma once

#include "filters/filter.h"
#include "proxy/base/clock.h"

namespace recourse {

// When the backend's answer must be complete: the tool's, else the backend's, else the default
// timeout from now.
MonoTime AnswerDeadline(const RequestContext& context, MonoTime now);

class DispatchFilter final : public Filter {
 public:
  // Both outlive the filter. `upstream` belongs to the flow's thread.
  DispatchFilter(Upstream& upstream, const Clock& clock) : upstream_(upstream), clock_(clock) {}
  std::string_view name() const override { return "dispatch"; }
  // Fails with the connection's or exchange's error; with kLedgerUnavailable, and nothing sent,
  // when the event did not become durable.
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;

 private:
  Task<Result<Outcome>> Send(RequestContext& context);

  Upstream& upstream_;
  const Clock& clock_;
};

}  // namespace recourse
