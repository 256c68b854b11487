#include "filters/saga/late_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {

// Twice as long after the loss as the proof took. A flow is UNDONE only then; what is found before
// that is undone like every other step.
Task<std::optional<FlowState>> LateSteps::LookBack(FlowState state) {
  MonoTime next = MonoTime::max();  // of those that are still to be looked at
  for (const FlowStep& step : state.steps) {
    FlowEntry* entry = tools_.table.Find(state.number);
    if (entry == nullptr) co_return std::nullopt;
    if (step.phase != Phase::kProvenAbsent || step.end != StepEnd::kNone) continue;
    if (entry->late[step.operation].is_over) continue;
    const auto event = co_await tools_.records.Look(state.number, step.operation);
    if (!event && !tools_.records.IsLostToReading(state.number)) co_return std::nullopt;
    if (!event)
      co_return co_await tools_.records.Park(state, FlowRecords::UnreadReason(step.operation));
    const auto after = LooksAgainAfter(*event);
    entry = tools_.table.Find(state.number);
    if (entry == nullptr) co_return std::nullopt;
    LateStep& late = entry->late[step.operation];
    late.is_over = !after;
    if (late.is_over) continue;
    const MonoTime now = tools_.parts.clock.Now();
    if (late.next == MonoTime{}) {
      late.next = now + *after;
      late.give_up = late.next + limits::kFlowSettleFor;
    }
    if (late.next <= now) {
      if (!tools_.share.Enter(state.number, event->backend,
                              *tools_.parts.policy(event->policy_version))) {
        co_return std::nullopt;
      }
      const SecondLook seen =
          co_await tools_.parts.settling.LookAgain(*event, tools_.parts.executor);
      tools_.share.Leave(event->backend);
      if (seen == SecondLook::kTookEffect || seen == SecondLook::kPerhaps) {
        co_return co_await TakeLate(std::move(state), *event, seen);
      }
      if (!NoteLook(state.number, step.operation, seen)) continue;
    }
    entry = tools_.table.Find(state.number);
    if (entry == nullptr) co_return std::nullopt;
    next = std::min(next, entry->late[step.operation].next);
  }
  if (next != MonoTime::max()) {
    if (tools_.table.Find(state.number) != nullptr) tools_.table.SetDue(state.number, next);
    co_return std::nullopt;
  }
  co_return co_await tools_.records.Move(
      FlowMove::Of(state, FlowPhase::kUndone, FlowCause::kAllUndone, state.reason));
}

// True: it has to be looked at again.
bool LateSteps::NoteLook(std::uint64_t number, std::uint64_t operation, SecondLook seen) {
  FlowEntry* const entry = tools_.table.Find(number);
  if (entry == nullptr) return false;
  LateStep& late = entry->late[operation];
  late.next = tools_.parts.clock.Now() + limits::kUndoBackoffFirst;
  late.is_over = seen == SecondLook::kAbsent || late.next > late.give_up;
  return !late.is_over;
}

Task<std::optional<FlowState>> LateSteps::TakeLate(FlowState state, Event step, SecondLook seen) {
  if (seen == SecondLook::kTookEffect) {
    Log(LogLevel::kError, "a step took effect after its absence was proved; it is undone",
        {{"flow", state.id}, {"step", PrintRowId(step.operation)}, {"tool", step.tool}});
    co_return co_await tools_.records.Get(state.number);
  }
  co_return co_await tools_.records.Park(
      state, fmt::format("{0} (operation {1}) was proved absent, and its settle request finds an "
                         "effect now, which may be another call's: look, then resolve step {1} as "
                         "happened or as absent",
                         step.tool, PrintRowId(step.operation)));
}

std::optional<Millis> LateSteps::LooksAgainAfter(const Event& step) {
  if (step.cause != Cause::kProbeAbsent || !step.settle) return std::nullopt;
  const auto policy = tools_.parts.policy(step.policy_version);
  if (!policy || policy->version != step.policy_version) return std::nullopt;
  const Tool* const tool = policy->FindTool(step.tool);
  return tool != nullptr && tool->settle ? tool->settle->absent_after : std::nullopt;
}

}  // namespace recourse
