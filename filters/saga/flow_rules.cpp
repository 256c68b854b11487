#include "filters/saga/flow_rules.h"

#include <algorithm>

#include "proxy/base/limits.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

std::optional<FlowOrder::Kind> OrderOf(std::string_view word) {
  if (EqualsIgnoreCase(word, "cancel")) return FlowOrder::Kind::kCancel;
  if (EqualsIgnoreCase(word, "close")) return FlowOrder::Kind::kClose;
  return std::nullopt;
}

}  // namespace

bool IsFlowOrder(std::string_view value) {
  return OrderOf(value.substr(0, value.find(' '))).has_value();
}

std::optional<FlowOrder> ReadFlowOrder(const Headers& headers) {
  const std::string* const field = FindHeader(headers, "Recourse-Flow");
  if (field == nullptr) return std::nullopt;
  const std::string_view text = *field;
  const auto space = text.find(' ');
  const auto kind = OrderOf(text.substr(0, space));
  if (!kind) return std::nullopt;
  FlowOrder order{*kind, {}};
  if (space != std::string_view::npos) order.flow = text.substr(space + 1);
  return order;
}

bool IsWorkedOn(FlowPhase phase) {
  return phase == FlowPhase::kBreaking || phase == FlowPhase::kUndoing;
}

std::optional<Millis> FlowTimeLeft(const Policy& policy, const FlowState& state, Millis elapsed) {
  const Flow* const flow = policy.FindFlow(state.name);
  if (flow == nullptr || !flow->deadline) return std::nullopt;
  return std::max(Millis(0), *flow->deadline - elapsed);
}

std::vector<std::string> DecidingTools(const Policy& policy, const Flow& flow) {
  std::vector<std::string> names;
  for (const auto& index : {flow.ends_with, flow.canceled_by}) {
    if (index) names.push_back(policy.tools[*index].name);
  }
  return names;
}

Millis AwaitedAtDeadline(const Policy& policy, const FlowState& state, const Event& step) {
  const Flow* const flow = policy.FindFlow(state.name);
  if (flow == nullptr || !IsOpen(step.phase)) return Millis(0);
  const bool is_running = step.phase == Phase::kDispatching;
  const auto deciding = DecidingTools(policy, *flow);
  if (std::ranges::find(deciding, step.tool) == deciding.end()) {
    if (flow->ends_with) return Millis(0);
    // What is sent again may have been sent in time.
    const bool is_late = step.attempt < 2 && flow->deadline &&
                         step.wall_ms > state.began_ms + flow->deadline->count();
    // Else calls that overlap would keep the flow open for ever.
    if (is_running && is_late) return Millis(0);
  }
  if (is_running) return Millis::max();
  if (step.task) return limits::kTaskAwaitedFor;
  const Tool* const tool = policy.FindTool(step.tool);
  if (step.settle) {
    const bool has_bound = tool != nullptr && tool->settle && tool->settle->absent_after;
    return limits::kFlowSettleFor + (has_bound ? *tool->settle->absent_after : Millis(0));
  }
  // A repeat of its agent, under the backend's key, tells.
  return step.dedupe_domain != 0 ? limits::kFlowSettleFor : Millis(0);
}

FlowMove MoveAtDeadline(const Policy& policy, const FlowState& state, bool has_ended) {
  FlowMove move = FlowMove::Of(state, FlowPhase::kNeedsHuman, FlowCause::kDeadline,
                               "its deadline passed with unfinished business");
  const Flow* const flow = policy.FindFlow(state.name);
  if (flow != nullptr) move.deciding = DecidingTools(policy, *flow);
  const bool must_end = flow != nullptr && flow->ends_with.has_value();
  // What still runs where nothing has to be the last began behind the deadline.
  const bool is_clean = std::ranges::all_of(state.steps, [&](const FlowStep& step) {
    return StatusOf(step.phase) == Status::kSuccess ||
           (!must_end && step.phase == Phase::kDispatching);
  });
  if ((is_clean && (!must_end || has_ended)) ||
      (flow != nullptr && flow->on_deadline == OnDeadline::kKeep)) {
    move.to = FlowPhase::kCommitted;
    move.reason = is_clean ? "its deadline passed and every step had succeeded"
                           : "its deadline passed; the policy keeps what was done";
  } else if (flow != nullptr && flow->on_deadline == OnDeadline::kUndo) {
    move.to = FlowPhase::kBreaking;
  }
  return move;
}

}  // namespace recourse
