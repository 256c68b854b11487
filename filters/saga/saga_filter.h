#pragma once

#include "filters/filter.h"
#include "filters/flow_monitor.h"
#include "filters/saga/flow_rules.h"

namespace recourse {

// Takes the agent's word on its flow: a request with "Recourse-Flow: close" or "cancel" is a
// message to us, answered here and never forwarded, if the policy lets agents say so.
class SagaFilter final : public Filter {
 public:
  explicit SagaFilter(FlowMonitor& flowing) : flowing_(flowing) {}
  std::string_view name() const override { return "saga"; }
  Task<Result<Outcome>> Handle(RequestContext& context, Next next) override;

 private:
  Task<Result<Outcome>> CarryOut(RequestContext& context, FlowOrder order);

  FlowMonitor& flowing_;
};

}  // namespace recourse
