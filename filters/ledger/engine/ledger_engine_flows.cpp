// Flows in LedgerEngine: fences, undo operations, and the moves of flows.
#include <algorithm>
#include <utility>

#include "filters/ledger/engine/ledger_engine.h"
#include "filters/ledger/rules/move_flow.h"

namespace recourse {
namespace {

Error Internal(std::string_view why) {
  return Error(ErrorCode::kInternal, why, Delivery::kNotSent);
}

}  // namespace

// A repeat belongs to the flow that its operation began in.
Result<std::uint64_t> LedgerEngine::FenceOf(const NewOperation& call, const Found* found) {
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

Result<LedgerEngine::BeginStep> LedgerEngine::BehindFence(NewOperation& call, const Found* found,
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
Result<void> LedgerEngine::CheckUndo(const NewOperation& call) {
  if (call.event.undoes == 0) return {};
  const FlowState* const flow = flows_.Find(call.event.caller, call.event.flow);
  if (flow == nullptr || flow->phase != FlowPhase::kUndoing) {
    return std::unexpected(Internal("an undo of a flow that is not being undone"));
  }
  const bool is_due =
      std::any_of(flow->steps.begin(), flow->steps.end(), [&](const FlowStep& step) {
        return step.operation == call.event.undoes && IsExecuted(step.phase) &&
               step.end == StepEnd::kNone;
      });
  if (!is_due) return std::unexpected(Internal("an undo of a step that needs none"));
  return {};
}

Result<void> LedgerEngine::WriteFlow(const FlowState& state) {
  auto plan = Judge([&](Known& known) -> Judged<Plan> {
    Plan flow;
    if (auto done = PlanFlow(state, known, flow); !done) return std::unexpected(done.error());
    return flow;
  });
  if (!plan) return std::unexpected(plan.error());
  return CarryOut(*plan);
}

Result<FlowState> LedgerEngine::MoveFlow(const FlowMove& move) {
  auto planned = Judge([&](Known& known) { return recourse::Decide(move, known); });
  if (!planned) return std::unexpected(planned.error());
  if (auto done = CarryOut(planned->plan); !done) return std::unexpected(done.error());
  return std::move(planned->reply);
}

// The flow's last row moves on while the flow is not over. Of one that was undone it fences the
// name, until it is as old as everything that is forgotten.
Result<void> LedgerEngine::RetireFlow(const RowView& row) {
  FlowState state;
  if (!DecodeFlow(row, state)) return std::unexpected(Unreadable(row.head.seq));
  if (flows_.HoldsRow(state)) {
    return WriteFlow(FlowState(*flows_.Find(state.number)));
  } else if (state.phase == FlowPhase::kUndone) {
    flows_.Unfence(state);
  }
  return {};
}

}  // namespace recourse
