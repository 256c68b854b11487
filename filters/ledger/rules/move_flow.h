// Whether a flow may move, and what its move brings with it. Pure.
#pragma once

#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/plan.h"

namespace recourse {

struct FlowPlan {
  Plan plan;
  FlowState reply;  // the flow as it is once the plan is carried out
};
Judged<FlowPlan> Decide(const FlowMove& move, Known& known);

// A row of the flow. What waits for a human in a flow that takes no further writes ends with it:
// nobody may send that any more.
Judged<void> PlanFlow(FlowState state, Known& known, Plan& plan);

}  // namespace recourse
