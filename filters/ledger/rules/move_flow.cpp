#include "filters/ledger/rules/move_flow.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/rules/decide_approval.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::unexpected<Stop> RefuseMove(std::string_view why) {
  return Fails(Error(ErrorCode::kInternal, why, Delivery::kNotSent));
}

// A flow that is over comes back as its operations are now.
Judged<FlowState> Reopen(FlowState state, Known& known) {
  const auto named = known.Get(FlowNamed{FlowKeyOf(state.caller, state.id)});
  if (!named) return std::unexpected(named.error());
  if ((*named)->flow) return RefuseMove("another flow of that trace is not over");
  // What had no effect in this flow may have been made again in another one.
  const auto is_gone = [](const FlowStep& step) { return !MayHaveEffect(step.phase); };
  std::erase_if(state.steps, is_gone);
  std::vector<OperationOf> operations;
  for (const FlowStep& step : state.steps) operations.push_back({step.operation});
  if (auto all = known.Require(operations); !all) return std::unexpected(all.error());
  for (FlowStep& step : state.steps) {
    const auto now = known.Get(OperationOf{step.operation});
    if (!now) return std::unexpected(now.error());
    if (!**now) return Fails(Error(ErrorCode::kInternal, "no such operation"));
    const KeyEntry& entry = (**now)->entry;
    step.phase = entry.phase;
    // It succeeded only after the flow was over.
    if (IsExecuted(step.phase) && step.success == 0) step.success = entry.last_event;
  }
  std::erase_if(state.steps, is_gone);
  state.phase = FlowPhase::kCommitted;
  return state;
}

// Not so of one that has its number since a database went back to an older state.
bool IsThatFlow(const FlowMove& move, const FlowState& state) {
  if (move.number == 0 || move.began_ms == 0) return true;
  return move.began_ms == state.began_ms && move.caller == state.caller && move.flow == state.id;
}

// The flow that is to move; nullptr: none that is not over.
Judged<const FlowState*> FindFlow(const FlowMove& move, Known& known) {
  const FlowState* none = nullptr;
  if (move.number != 0) {
    const auto flow = known.Get(FlowNumbered{move.number});
    if (!flow) return std::unexpected(flow.error());
    return **flow ? &***flow : none;
  }
  const auto flow = known.Get(FlowNamed{FlowKeyOf(move.caller, move.flow)});
  if (!flow) return std::unexpected(flow.error());
  return (*flow)->flow ? &*(*flow)->flow : none;
}

Judged<void> CheckMove(const FlowMove& move, const FlowState& state) {
  if (!IsThatFlow(move, state)) return Fails(OtherCallError());
  if (state.phase != move.from) return RefuseMove("the flow has moved on");
  if (!IsLegal(move.from, move.to)) return RefuseMove("not a legal move");
  const auto is_open = [](const FlowStep& step) { return IsOpen(step.phase); };
  if (move.to == FlowPhase::kUndoing && std::ranges::any_of(state.steps, is_open)) {
    return RefuseMove("a step of the flow is open");
  }
  if (move.to == FlowPhase::kUndone && std::ranges::any_of(state.steps, NeedsUndo)) {
    return RefuseMove("a step of the flow is not undone");
  }
  return {};
}

// Nothing is said of a step that is not meant.
Judged<void> TakeNotNeeded(const FlowMove& move, FlowState& state, Known& known) {
  std::vector<OperationOf> named;
  for (const NamedStep& step : move.not_needed) {
    if (step.key) named.push_back({step.operation});
  }
  if (auto all = known.Require(named); !all) return std::unexpected(all.error());
  for (const NamedStep& step : move.not_needed) {
    if (step.key) {
      const auto now = known.Get(OperationOf{step.operation});
      if (!now) return std::unexpected(now.error());
      if (!**now || !IsMeant(step.key, (**now)->key)) return Fails(OtherCallError());
    }
    const auto at = std::ranges::find(state.steps, step.operation, &FlowStep::operation);
    if (at != state.steps.end()) at->end = StepEnd::kNotNeeded;
  }
  return {};
}

// One that was sent meanwhile may decide what becomes of the flow.
Judged<void> CheckUnseen(const FlowMove& move, const FlowState& state, Known& known) {
  if (move.deciding.empty()) return {};
  std::vector<OperationOf> open;
  for (const FlowStep& step : state.steps) {
    if (IsOpen(step.phase)) open.push_back({step.operation});
  }
  if (auto all = known.Require(open); !all) return std::unexpected(all.error());
  std::vector<EventAt> last;
  for (const OperationOf& operation : open) {
    const auto found = known.Get(operation);
    if (!found) return std::unexpected(found.error());
    if (!**found) continue;
    const FoundOperation& now = ***found;
    const bool is_seen = std::ranges::any_of(move.seen, [&](const NamedStep& seen) {
      return seen.operation == now.entry.operation && seen.phase == now.entry.phase &&
             IsMeant(seen.key, now.key);
    });
    if (!is_seen) last.push_back({now.entry.last_event});
  }
  if (auto all = known.Require(last); !all) return std::unexpected(all.error());
  for (const EventAt& at : last) {
    const auto event = known.Get(at);
    if (!event) return std::unexpected(event.error());
    if (std::ranges::find(move.deciding, (*event)->tool) != move.deciding.end()) {
      return RefuseMove("a step that decides has been sent");
    }
  }
  return {};
}

bool Writes(const Plan& plan, std::uint64_t operation) {
  return std::ranges::any_of(plan.writes, [&](const RowWrite& write) {
    const auto* const event = std::get_if<EventWrite>(&write);
    return event != nullptr && event->event.operation == operation;
  });
}

// As it stands in memory behind the rows of the plan. A flow that is over is held no more.
FlowState AfterPlan(const FlowState* before, FlowState state, const Plan& plan) {
  if (IsFinal(state.phase)) return state;
  CountTries(before != nullptr && before->phase == state.phase ? before : nullptr, state);
  for (const RowWrite& write : plan.writes) {
    const auto* const ended = std::get_if<EventWrite>(&write);
    const auto news = ended != nullptr ? NewsOf(ended->event) : std::nullopt;
    if (news) TakeNews(state, *news);
  }
  return state;
}

}  // namespace

Judged<void> PlanFlow(FlowState state, Known& known, Plan& plan) {
  std::vector<ApprovalState> waiting;
  if (IsFenced(state.phase)) {
    const auto found = known.Get(ApprovalsIn{FlowKeyOf(state.caller, state.id)});
    if (!found) return std::unexpected(found.error());
    waiting = std::move(**found);
  }
  plan.writes.reserve(plan.writes.size() + 1 + waiting.size());
  plan.writes.emplace_back(FlowWrite{std::move(state)});
  for (ApprovalState& approval : waiting) {
    if (Writes(plan, approval.found.entry.operation)) continue;  // it waits no more
    EndApproval(Cause::kFlowClosed, "its flow takes no further writes", std::move(approval), plan);
  }
  return {};
}

Judged<FlowPlan> Decide(const FlowMove& move, Known& known) {
  if (known.is_latched) return Fails(LatchedError());
  const auto before = FindFlow(move, known);
  if (!before) return std::unexpected(before.error());
  if (*before == nullptr && !move.reopened) return RefuseMove("no such flow, or it is over");
  auto state = *before != nullptr ? Judged<FlowState>(**before) : Reopen(*move.reopened, known);
  if (!state) return std::unexpected(state.error());
  if (auto taken = TakeNotNeeded(move, *state, known); !taken) {
    return std::unexpected(taken.error());
  }
  if (auto checked = CheckMove(move, *state); !checked) return std::unexpected(checked.error());
  if (auto checked = CheckUnseen(move, *state, known); !checked) {
    return std::unexpected(checked.error());
  }
  state->phase = move.to;
  state->cause = move.cause;
  state->reason = move.reason.substr(0, limits::kFlowReasonBytesMax);
  state->changed_ms = known.wall_ms;
  state->row = known.next_row;
  FlowPlan planned;
  if (auto done = PlanFlow(*state, known, planned.plan); !done) {
    return std::unexpected(done.error());
  }
  planned.reply = AfterPlan(*before, std::move(*state), planned.plan);
  return planned;
}

}  // namespace recourse
