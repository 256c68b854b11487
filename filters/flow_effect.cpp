#include "filters/flow_effect.h"

namespace recourse {
namespace {

bool Is(const Policy& policy, const std::optional<std::size_t>& index, const Tool& tool) {
  return index && policy.tools[*index].name == tool.name;
}

}  // namespace

std::optional<Transition::FlowEffect> FlowEffectOf(const Policy& policy, const Tool& tool,
                                                   Phase phase) {
  const Flow* const flow = policy.FlowOf(tool);
  switch (phase) {
    case Phase::kSucceeded:
    case Phase::kAnswerLost:  // it was executed all the same, and its agent is told so
      if (flow != nullptr && Is(policy, flow->canceled_by, tool)) {
        return Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kCanceled,
                                      tool.name + " cancels the flow"};
      }
      if (flow != nullptr && Is(policy, flow->ends_with, tool)) {
        return Transition::FlowEffect{FlowPhase::kCommitted, FlowCause::kEndsWith,
                                      tool.name + " succeeded"};
      }
      return std::nullopt;
    case Phase::kRejected:
    case Phase::kProvenAbsent:
      if (tool.breaks_flow == BreaksFlow::kNever) return std::nullopt;
      return Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kStepFailed,
                                    tool.name + " failed"};
    case Phase::kUncertain:
      if (tool.breaks_flow != BreaksFlow::kOnUnknown) return std::nullopt;
      return Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kStepUnknown,
                                    "the outcome of " + tool.name + " is unknown"};
    default:
      return std::nullopt;
  }
}

}  // namespace recourse
