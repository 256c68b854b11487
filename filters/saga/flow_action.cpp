#include "filters/saga/flow_action.h"

#include <algorithm>
#include <initializer_list>

#include "filters/ledger/model/row_id.h"
#include "filters/saga/undo_plan.h"

namespace recourse {
namespace {

// Why a step was not undone by hand, as far as its flow tells: its turn has not come. Empty: it may
// have been. Where the policy goes on past a stuck step, all that is left is stuck.
std::string WhyNotStuck(const FlowState& state, std::uint64_t operation, const Flow* flow) {
  if (IsStopped(state) || (flow != nullptr && flow->continue_on_stuck)) return {};
  const std::set<std::uint64_t> stuck = StuckSteps(state);
  const FlowStep* const next = NextToUndo(state, {});
  const bool is_next = next != nullptr && next->operation == operation;
  if (is_next || stuck.empty() || stuck.contains(operation)) return {};
  return "step " + PrintRowId(*stuck.rbegin()) + " is stuck; step " + PrintRowId(operation) +
         " will be undone by itself; --as not-needed keeps it from that";
}

}  // namespace

bool IsTold(const FlowAction& action, Phase step) {
  return action.kind == FlowAction::Kind::kAbsent && step == Phase::kProvenAbsent;
}

FlowMove MoveOf(const FlowAction& action, const FlowState& state) {
  FlowMove move = FlowMove::Of(state, FlowPhase::kBreaking, FlowCause::kHuman, action.reason);
  if (action.kind == FlowAction::Kind::kClose) move.to = FlowPhase::kCommitted;
  const bool is_confirmed = std::ranges::any_of(state.steps, [&](const FlowStep& step) {
    return step.operation == action.operation && IsTold(action, step.phase);
  });
  if (action.kind == FlowAction::Kind::kNotNeeded || is_confirmed) {
    move.not_needed.push_back({action.operation});
  }
  if (action.kind == FlowAction::Kind::kUndo) move.reopened = state;
  move.told_by = MonoTime{};
  return move;
}

std::set<std::uint64_t> StuckSteps(const FlowState& state) {
  std::set<std::uint64_t> stuck;
  for (const FlowStep& step : state.steps) {
    if (IsOpen(step.phase) || (NeedsUndo(step) && step.undo != 0)) stuck.insert(step.operation);
  }
  const FlowStep* const next = NextToUndo(state, {});
  if (stuck.empty() && next != nullptr) stuck.insert(next->operation);
  return stuck;
}

std::string ObjectionToAction(const FlowAction& action, const FlowState& state, const Flow* flow) {
  const auto is_in = [&](std::initializer_list<FlowPhase> phases) {
    return std::find(phases.begin(), phases.end(), state.phase) != phases.end();
  };
  const std::string now = "the flow is " + std::string(NameOf(state.phase)) + "; ";
  switch (action.kind) {
    case FlowAction::Kind::kClose:
      if (is_in({FlowPhase::kOpen, FlowPhase::kNeedsHuman})) return {};
      return now + "only an OPEN or a parked one (NEEDS_HUMAN) can be closed";
    case FlowAction::Kind::kCancel:
      return is_in({FlowPhase::kOpen}) ? std::string() : now + "only an OPEN one can be canceled";
    case FlowAction::Kind::kUndo:
      if (is_in({FlowPhase::kCommitted})) return {};
      return now + "undo is for a COMMITTED one; cancel an OPEN one, retry a parked one";
    default:
      break;
  }
  if (!is_in({FlowPhase::kNeedsHuman})) return now + "it does not wait for a human";
  if (action.kind == FlowAction::Kind::kRetry) return {};
  const auto step = std::find_if(state.steps.begin(), state.steps.end(), [&](const FlowStep& s) {
    return s.operation == action.operation;
  });
  if (step == state.steps.end()) {
    return "the flow has no step " + PrintRowId(action.operation);
  }
  const bool is_unknown = step->phase == Phase::kUncertain;
  const bool is_absent = step->phase == Phase::kProvenAbsent && step->end == StepEnd::kNone;
  if (action.kind == FlowAction::Kind::kHappened || action.kind == FlowAction::Kind::kAbsent) {
    if (is_unknown || is_absent) return {};
    return "the outcome of that step is known: " + std::string(NameOf(step->phase));
  }
  if (is_unknown) {
    return "the outcome of that step is unknown; say first whether it happened or not "
           "(--as happened, --as absent)";
  }
  if (!NeedsUndo(*step))
    return "that step needs no undo: it is " + std::string(NameOf(step->phase));
  if (action.kind != FlowAction::Kind::kDone) return {};
  return WhyNotStuck(state, action.operation, flow);
}

Transition DoneTransition(const FlowAction& action, const Event& step) {
  Transition transition = Transition::Of(step);
  transition.to = Phase::kCompensated;
  transition.cause = Cause::kHuman;
  transition.detail = action.reason;
  return transition;
}

HumanWord WordOf(const FlowAction& action, const Event& step) {
  return {.operation = action.operation,
          .key = step.key,
          .happened = action.kind == FlowAction::Kind::kHappened,
          .external_ref = action.external_ref,
          .reason = action.reason,
          .corrects_proof = action.kind == FlowAction::Kind::kHappened};
}

Transition::FlowEffect Resuming(const std::string& reason) {
  return {FlowPhase::kBreaking, FlowCause::kHuman, reason, FlowPhase::kNeedsHuman};
}

bool WaitsForOutcome(const FlowState& state) {
  return state.phase == FlowPhase::kNeedsHuman && state.cause != FlowCause::kDeadline;
}

}  // namespace recourse
