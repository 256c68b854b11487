#include "filters/saga/flow_rules.h"

#include <algorithm>

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

FlowMove MoveAtDeadline(const Policy& policy, const FlowState& state, bool has_ended) {
  FlowMove move{.number = state.number,
                .from = FlowPhase::kOpen,
                .to = FlowPhase::kNeedsHuman,
                .cause = FlowCause::kDeadline,
                .reason = "its deadline passed with unfinished business"};
  const Flow* const flow = policy.FindFlow(state.name);
  const bool is_clean = std::all_of(state.steps.begin(), state.steps.end(), [](const FlowStep& s) {
    return StatusOf(s.phase) == Status::kSuccess;
  });
  const bool must_end = flow != nullptr && flow->ends_with.has_value();
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
