// Flows in ReferenceEngine: fences, undo operations, and the moves of flows.
#include <algorithm>
#include <utility>

#include "tests/differential/reference.h"

namespace recourse {
namespace {

Error Internal(std::string_view why) {
  return Error(ErrorCode::kInternal, why, Delivery::kNotSent);
}

bool HasEffect(Phase phase) { return phase == Phase::kSucceeded || phase == Phase::kAnswerLost; }

StepUpdate NewsOfEvent(const Event& event) {
  return {.row = event.id,
          .wall_ms = event.wall_ms,
          .operation = event.operation,
          .phase = event.phase,
          .attempt = event.attempt,
          .has_undo = event.undo.has_value(),
          .undoes = event.undoes,
          .has_deadline = event.flow_has_deadline,
          .is_resend = event.cause == Cause::kResend || event.cause == Cause::kTooLate,
          .caller = event.caller,
          .trace_id = event.trace_id,
          .flow = event.flow,
          .flow_name = event.flow_name,
          .policy_version = event.policy_version};
}

}  // namespace

// A repeat belongs to the flow that its operation began in.
Result<std::uint64_t> ReferenceEngine::FenceOf(const NewOperation& call, const Found* found) {
  if (!call.event.is_step) return 0;
  flows_.CloseIdle(clock_.Now() - limits::kFlowIdle, limits::kFlowsMax, limits::kFlowsClosedAtOnce);
  if (found != nullptr) {
    if (call.passes_fence) return 0;
    if (!ReadRow(found->entry.last_event, row_)) {
      return std::unexpected(Unreadable(found->entry.last_event));
    }
    const auto row = ParseRow(row_);
    if (!row) return std::unexpected(Unreadable(found->entry.last_event));
    const auto news = NewsOf(*row);
    return news ? flows_.FencedBy(news->caller, news->flow) : 0;
  }
  const Digest key = FlowKeyOf(call.event.caller, call.event.flow);
  const FlowState* const flow = flows_.Find(key);
  if (flow == nullptr && flows_.is_full(limits::kFlowsMax)) {
    return std::unexpected(
        Error(ErrorCode::kOverloaded, "too many flows are open", Delivery::kNotSent));
  }
  if (flow != nullptr && flow->has_deadline && flow->steps.size() >= limits::kFlowStepsMax) {
    return std::unexpected(Error(ErrorCode::kQuotaExceeded,
                                 "the flow has 10,000 writes; close it or begin another trace",
                                 Delivery::kNotSent));
  }
  return flows_.FencedBy(key);
}

Result<ReferenceEngine::BeginStep> ReferenceEngine::BehindFence(NewOperation& call,
                                                                const Found* found,
                                                                std::uint64_t flow) {
  if (found != nullptr && found->entry.phase == Phase::kCompensated) {
    return BeginRepeat(call, {.kind = Begun::Kind::kCompensated}, *found);
  }
  // What was sent and is not known stays unknown, whatever became of its flow.
  if (found != nullptr && MayHaveEffect(found->entry.phase)) {
    return BeginRepeat(call, {.kind = Begun::Kind::kUnknown}, *found);
  }
  BeginStep step;
  step.begun.kind = Begun::Kind::kFlowClosed;
  step.begun.flow = flow;
  step.begun.event = std::move(call.event);
  return step;
}

// An undo without its flow in UNDOING, or of a step without an effect, is a mistake of ours.
Result<void> ReferenceEngine::CheckUndo(const NewOperation& call) {
  if (call.event.undoes == 0) return {};
  const FlowState* const flow = flows_.Find(call.event.caller, call.event.flow);
  if (flow == nullptr || flow->phase != FlowPhase::kUndoing) {
    return std::unexpected(Internal("an undo of a flow that is not being undone"));
  }
  const bool is_due =
      std::any_of(flow->steps.begin(), flow->steps.end(), [&](const FlowStep& step) {
        return step.operation == call.event.undoes && HasEffect(step.phase) &&
               step.end == StepEnd::kNone;
      });
  if (!is_due) return std::unexpected(Internal("an undo of a step that needs none"));
  // Newer than the reference: its number may be another call's by now.
  const auto forward = FindByOperation(call.event.undoes);
  if (!forward) return std::unexpected(forward.error());
  const bool is_it = *forward && call.event.key == UndoKeyOf((*forward)->key, call.event.undoes);
  if (!is_it) return std::unexpected(OtherCallError());
  return {};
}

// What the step becomes once its undo has succeeded; fails while nothing is written yet.
Result<std::pair<Event, KeyEntry>> ReferenceEngine::Compensated(std::uint64_t operation) {
  auto found = FindByOperation(operation);
  if (!found) return std::unexpected(found.error());
  if (!*found || !HasEffect((*found)->entry.phase)) {
    return std::unexpected(Internal("the step that was undone has moved on"));
  }
  const std::uint64_t last = (*found)->entry.last_event;
  if (!ReadRow(last, row_)) return std::unexpected(Unreadable(last));
  const auto row = ParseRow(row_);
  Event event;
  if (!row || !DecodeEvent(*row, AnswerPart::kOnlyRequest, opener_, event)) {
    return std::unexpected(Unreadable(last));
  }
  if (event.is_locked) return std::unexpected(Internal("the step is sealed with a missing key"));
  event.phase = Phase::kCompensated;
  event.cause = Cause::kUndone;
  event.detail.clear();
  event.answer_kept = false;
  event.answer = HttpResponse();
  event.settle.reset();
  event.undo.reset();
  event.state.reset();
  return std::pair(std::move(event), (*found)->entry);
}

void ReferenceEngine::TellFlow(const Event& event) {
  if (event.verdict != ObserveVerdict::kNone) return;  // as for NewsOf
  if (event.is_step || event.undoes != 0) flows_.Apply(NewsOfEvent(event), clock_.Now());
}

std::uint64_t ReferenceEngine::AppendFlow(FlowState state) {
  const RowHead head = NextHead(RowKind::kFlow);
  state.row = head.seq;
  AppendFlowRow(batch_.bytes, head, state);
  CloseRow();
  flows_.Apply(state, clock_.Now());
  if (IsFenced(state.phase)) EndClaimsOf(state);
  return head.seq;
}

void ReferenceEngine::MoveFlowOf(const Event& event, const Transition::FlowEffect& effect) {
  const FlowState* const flow = flows_.Find(event.caller, event.flow);
  const std::uint64_t of = event.undoes != 0 ? event.undoes : event.operation;
  if ((!event.is_step && event.undoes == 0) || flow == nullptr || flow->phase != effect.from)
    return;
  // The flow that this step was of may be over, and another one have its name.
  if (std::none_of(flow->steps.begin(), flow->steps.end(),
                   [&](const FlowStep& step) { return step.operation == of; })) {
    return;
  }
  FlowState moved = *flow;
  moved.phase = effect.to;
  moved.cause = effect.cause;
  moved.reason = effect.reason.substr(0, limits::kFlowReasonBytesMax);
  moved.changed_ms = event.wall_ms;
  AppendFlow(std::move(moved));
}

Result<FlowState> ReferenceEngine::MoveFlow(FlowMove& move) {
  if (is_latched_) return std::unexpected(Latched());
  FlowState state;
  const FlowState* const known =
      move.number != 0 ? flows_.Find(move.number) : flows_.Find(move.caller, move.flow);
  if (known != nullptr) {
    state = *known;
  } else if (move.reopened) {
    auto reopened = Reopen(std::move(*move.reopened));
    if (!reopened) return reopened;
    state = std::move(*reopened);
  } else {
    return std::unexpected(Internal("no such flow, or it is over"));
  }
  if (state.phase != move.from) return std::unexpected(Internal("the flow has moved on"));
  if (!IsLegal(move.from, move.to)) return std::unexpected(Internal("not a legal move"));
  for (FlowStep& step : state.steps) {
    const auto is_it = [&](const NamedStep& named) { return named.operation == step.operation; };
    if (std::ranges::any_of(move.not_needed, is_it)) step.end = StepEnd::kNotNeeded;
  }
  if (move.to == FlowPhase::kUndoing &&
      std::any_of(state.steps.begin(), state.steps.end(),
                  [](const FlowStep& step) { return IsOpen(step.phase); })) {
    return std::unexpected(Internal("a step of the flow is open"));
  }
  if (move.to == FlowPhase::kUndone &&
      std::any_of(state.steps.begin(), state.steps.end(), NeedsUndo)) {
    return std::unexpected(Internal("a step of the flow is not undone"));
  }
  state.phase = move.to;
  state.cause = move.cause;
  state.reason = move.reason.substr(0, limits::kFlowReasonBytesMax);
  state.changed_ms = WallMs();
  state.row = AppendFlow(state);
  const FlowState* const moved = flows_.Find(state.number);
  return moved == nullptr ? state : *moved;
}

// A flow that is over comes back as its operations are now.
Result<FlowState> ReferenceEngine::Reopen(FlowState state) {
  if (flows_.Find(state.caller, state.id) != nullptr) {
    return std::unexpected(Internal("another flow of that trace is not over"));
  }
  // What had no effect in this flow may have been made again in another one.
  const auto is_gone = [](const FlowStep& step) { return !MayHaveEffect(step.phase); };
  std::erase_if(state.steps, is_gone);
  for (FlowStep& step : state.steps) {
    const auto now = StateOf(step.operation);
    if (!now) return std::unexpected(now.error());
    step.phase = now->phase;
    // It succeeded only after the flow was over.
    if (HasEffect(step.phase) && step.success == 0) step.success = now->last_event;
  }
  std::erase_if(state.steps, is_gone);
  state.phase = FlowPhase::kCommitted;
  return state;
}

// The flow's last row moves on while the flow is not over. Of one that was undone it fences the
// name, until it is as old as everything that is forgotten.
Result<void> ReferenceEngine::RetireFlow(const RowView& row) {
  FlowState state;
  if (!DecodeFlow(row, state)) return std::unexpected(Unreadable(row.head.seq));
  if (flows_.HoldsRow(state)) {
    AppendFlow(*flows_.Find(state.number));
  } else if (state.phase == FlowPhase::kUndone) {
    flows_.Unfence(state);
  }
  return {};
}

}  // namespace recourse
