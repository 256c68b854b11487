#include "filters/saga/step_undoer.h"

#include <fmt/format.h>

#include <algorithm>

#include "filters/ledger/model/row_id.h"
#include "filters/saga/undo_plan.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Another policy may mean another system by the same backend name. A human may say that it does
// not.
UndoDecision UnlessLost(UndoDecision decision, const Event& step, const Policy* policy,
                        bool by_human) {
  const bool is_lost = policy == nullptr || (policy->version != step.policy_version && !by_human);
  if (decision.kind != UndoDecision::Kind::kSend || !is_lost) return decision;
  return {UndoDecision::Kind::kPark, "the policy that it began under (" + step.policy_version +
                                         ") is lost; a retry undoes it under the policy in force"};
}

}  // namespace

Task<std::optional<FlowState>> StepUndoer::UndoNext(FlowState state) {
  FlowEntry* entry = tools_.table.Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  const FlowStep* const step = NextToUndo(state, entry->passed);
  if (step == nullptr) {
    if (!entry->passed.empty()) {
      co_return co_await tools_.records.Park(state, "some of its steps could not be undone");
    }
    co_return co_await late_.LookBack(std::move(state));
  }
  RC_CRASH_POINT("k21");
  const auto event = co_await tools_.records.Look(state.number, step->operation);
  if (!event) {
    if (!tools_.records.IsLostToReading(state.number)) co_return std::nullopt;
    co_return co_await tools_.records.Park(state, FlowRecords::UnreadReason(step->operation));
  }
  const auto policy = tools_.parts.policy(event->policy_version);
  const Tool* const tool = policy ? policy->FindTool(event->tool) : nullptr;
  const Flow* const flow = policy ? policy->FindFlow(state.name) : nullptr;
  entry = tools_.table.Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  const UndoDecision decision = UnlessLost(DecideUndo(*event, tool, flow), *event, policy.get(),
                                           HasStep(entry->by_human, *event));
  if (decision.kind == UndoDecision::Kind::kSkip) {
    co_return co_await PassOver(std::move(state), *event, {});
  }
  std::uint64_t maker = 0;
  if (decision.kind == UndoDecision::Kind::kSend) maker = co_await MakerOf(state, *event);
  if (maker != 0) {
    const std::string story =
        fmt::format("step {} ({}) needed no undo: it removed what step {} had made",
                    PrintRowId(event->operation), event->tool, PrintRowId(maker));
    co_return co_await PassOver(std::move(state), *event, story);
  }
  if (tools_.table.Find(state.number) == nullptr) co_return std::nullopt;
  UndoOutcome outcome{UndoOutcome::Kind::kStuck, decision.reason, {}};
  if (decision.kind == UndoDecision::Kind::kSend) {
    if (!tools_.share.Enter(state.number, event->backend, *policy)) co_return std::nullopt;
    outcome = co_await SendUndo(state, *step, *event, policy);
    tools_.share.Leave(event->backend);
  }
  entry = tools_.table.Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  switch (outcome.kind) {
    case UndoOutcome::Kind::kDone:
      co_return co_await tools_.records.Get(state.number);
    case UndoOutcome::Kind::kNotNeeded:
      co_return co_await PassOver(std::move(state), *event, outcome.reason);
    case UndoOutcome::Kind::kAgain:
      tools_.table.SetDue(state.number, tools_.parts.clock.Now() + outcome.pause);
      co_return std::nullopt;
    case UndoOutcome::Kind::kStuck:
      break;
  }
  if (flow != nullptr && flow->continue_on_stuck) {
    entry->passed.push_back(step->operation);
    co_return co_await tools_.records.Get(state.number);
  }
  std::string_view why = outcome.reason;
  const std::string named = event->tool + ": ";
  if (why.starts_with(named)) why.remove_prefix(named.size());
  co_return co_await tools_.records.Park(
      state, fmt::format("step {} ({}): {}", PrintRowId(step->operation), event->tool, why));
}

Task<std::uint64_t> StepUndoer::MakerOf(const FlowState& state, const Event& removal) {
  if (removal.stands.kind != WriteKind::kDelete) co_return 0;
  for (const FlowStep& other : state.steps) {
    if (other.operation == removal.operation || !other.has_undo || !NeedsUndo(other)) continue;
    const FlowEntry* const entry = tools_.table.Find(state.number);
    if (entry == nullptr) co_return 0;
    if (std::ranges::find(entry->passed, other.operation) != entry->passed.end()) continue;
    const auto made = co_await tools_.records.Look(state.number, other.operation);
    if (!made || !Removes(removal, *made)) continue;
    const auto policy = tools_.parts.policy(made->policy_version);
    const Tool* const tool = policy ? policy->FindTool(made->tool) : nullptr;
    const Flow* const flow = policy ? policy->FindFlow(state.name) : nullptr;
    if (DecideUndo(*made, tool, flow).kind == UndoDecision::Kind::kSend) co_return other.operation;
  }
  co_return 0;
}

// Its effect needs no undo; `story` is what the flow tells of that beside why it broke.
Task<std::optional<FlowState>> StepUndoer::PassOver(FlowState state, const Event& step,
                                                    const std::string& story) {
  std::string reason = state.reason;
  if (!story.empty()) reason += (reason.empty() ? "" : "; ") + story;
  FlowMove move = FlowMove::Of(state, FlowPhase::kUndoing, state.cause, std::move(reason));
  move.not_needed.push_back({step.operation, step.key});
  co_return co_await tools_.records.Move(std::move(move));
}

Task<void> StepUndoer::Recall(const FlowState& state) {
  bool is_whole = true;
  for (const FlowStep& step : state.steps) {
    if (step.phase != Phase::kCompensated || step.undo == 0) continue;
    const auto undo = co_await tools_.parts.ledger.Read(step.undo, tools_.parts.executor);
    is_whole = is_whole && undo.has_value();
    if (undo) sender_.Recall(*undo);
  }
  FlowEntry* const entry = tools_.table.Find(state.number);
  if (entry != nullptr) entry->is_recalled = is_whole;
}

Task<UndoOutcome> StepUndoer::SendUndo(const FlowState& state, const FlowStep& step,
                                       const Event& event, std::shared_ptr<const Policy> policy) {
  const Tool* const tool = policy->FindTool(event.tool);
  const int allowed =
      tool != nullptr && tool->undo ? tool->undo->attempts_max : limits::kUndoAttemptsMax;
  // A human's word is good for one try of the step that was stuck.
  FlowEntry& entry = *tools_.table.Find(state.number);
  const bool by_human = HasStep(entry.by_human, event);
  entry.by_human.erase(step.operation);
  const bool has_version = event.state && !event.state->ours.version.empty();
  if (has_version && !entry.is_recalled) co_await Recall(state);
  UndoOutcome outcome = co_await sender_.Try(event, policy, step.undo_base + allowed, by_human,
                                             Jitter(tools_.parts.random), step.undo);
  if (tools_.parts.tried) tools_.parts.tried(event.tool, outcome.kind);
  co_return outcome;
}

}  // namespace recourse
