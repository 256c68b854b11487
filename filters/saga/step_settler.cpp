#include "filters/saga/step_settler.h"

#include <algorithm>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/message_limits.h"

namespace recourse {

// What runs is awaited, what is unknown is settled; then the list of what has to be undone stands.
Task<std::optional<FlowState>> StepSettler::Settle(FlowState state) {
  RC_CRASH_POINT("k17");
  FlowEntry* const entry = tools_.table.Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  const MonoTime now = tools_.parts.clock.Now();
  if (entry->settle_until == MonoTime{}) entry->settle_until = now + limits::kFlowSettleFor;
  OpenSteps open;
  open.until = now;  // nothing is waited for that nothing can find out
  open.next = MonoTime::max();
  for (const FlowStep& step : state.steps) {
    if (IsOpen(step.phase)) co_await SettleStep(state.number, step.operation, open);
  }
  auto latest = co_await tools_.records.Get(state.number);
  if (!latest || latest->phase != FlowPhase::kBreaking) co_return latest;
  const bool is_open = std::any_of(latest->steps.begin(), latest->steps.end(),
                                   [](const FlowStep& step) { return IsOpen(step.phase); });
  if (!is_open) {
    co_return co_await tools_.records.Move(
        FlowMove::Of(*latest, FlowPhase::kUndoing, FlowCause::kSettled, latest->reason));
  }
  if (open.unread != 0)
    co_return co_await tools_.records.Park(*latest, FlowRecords::UnreadReason(open.unread));
  if (!open.is_running && tools_.parts.clock.Now() >= open.until) {
    co_return co_await tools_.records.Park(*latest, "nobody knows whether " + open.unknown);
  }
  // A step that was stuck beside one that still runs is looked at again with it.
  if (tools_.table.Find(state.number) != nullptr) {
    tools_.table.SetDue(state.number, std::min(open.next, now + limits::kUndoBackoffMax));
  }
  co_return std::nullopt;
}

Task<void> StepSettler::SettleStep(std::uint64_t number, std::uint64_t operation, OpenSteps& open) {
  auto event = co_await tools_.records.Look(number, operation);
  FlowEntry* const entry = tools_.table.Find(number);
  const MonoTime soon = tools_.parts.clock.Now() + limits::kProbeBackoffFirst;
  if (!event && tools_.records.IsLostToReading(number)) {
    open.unread = operation;
    co_return;
  }
  if (!event || entry == nullptr || event->phase == Phase::kDispatching) {
    open.is_running = true;
    open.next = std::min(open.next, soon);
    co_return;
  }
  if (event->phase != Phase::kUncertain) {
    open.next = std::min(open.next, soon);
    co_return;
  }
  if (!event->settle && !event->task) {
    co_await ResendStep(number, std::move(*event), open);
    co_return;
  }
  open.next = std::min(open.next, soon);
  open.unknown = event->tool + " (operation " + PrintRowId(operation) + ") took effect";
  MonoTime until = entry->settle_until;
  const auto policy = tools_.parts.policy(event->policy_version);
  const Tool* const tool = policy ? policy->FindTool(event->tool) : nullptr;
  if (tool != nullptr && tool->settle && tool->settle->absent_after) {
    until += *tool->settle->absent_after;
  }
  const MonoTime task_until = entry->settle_until + limits::kTaskAwaitedFor;
  tools_.parts.settling.Watch(*event);
  Settled settled = Settled::kNo;
  if (tools_.share.EnterApart(event->backend)) {
    settled = co_await tools_.parts.settling.SettleNow(
        operation, tools_.parts.clock.Now() + limits::kHold, tools_.parts.executor);
    tools_.share.Leave(event->backend);
  }  // else it is probed all the same
  // Its server says that it will come to an end, or that nobody will hear of that.
  if (settled == Settled::kRunning) until = std::max(until, task_until);
  if (settled == Settled::kLost) {
    open.unknown += tool != nullptr && tool->settled_by
                        ? ": settled_by has not told so before its deadline"
                        : ": its task has ended without telling, or is forgotten";
    if (!event->settle) co_return;
  }
  open.until = std::max(open.until, until);
}

Task<void> StepSettler::ResendStep(std::uint64_t number, Event unknown, OpenSteps& open) {
  const std::uint64_t operation = unknown.operation;
  const std::string who = unknown.tool + " (operation " + PrintRowId(operation) + ")";
  const auto policy = tools_.parts.policy(unknown.policy_version);
  const auto in_force = tools_.parts.policy(std::string());
  FlowEntry* entry = tools_.table.Find(number);
  StepResend* resend = &entry->resends[operation];
  if (!resend->stuck) resend->stuck = ObjectionToResend(unknown, policy.get(), in_force.get());
  const bool is_due = !resend->stuck && resend->next <= tools_.parts.clock.Now();
  if (is_due && !tools_.share.Enter(number, unknown.backend, *policy)) {
    resend->next =
        std::min(tools_.table.DueOf(number), tools_.parts.clock.Now() + limits::kUndoBackoffFirst);
  } else if (is_due) {
    const Tool* const tool = policy->FindTool(unknown.tool);
    int most = tool != nullptr && tool->undo ? tool->undo->attempts_max : limits::kUndoAttemptsMax;
    const bool by_human = HasStep(entry->by_human, unknown);
    entry->by_human.erase(operation);
    if (by_human) most = std::max(most, unknown.attempt + 1);
    const std::string backend = unknown.backend;
    const ResendOutcome outcome =
        co_await resender_.Try(std::move(unknown), policy, by_human ? in_force : policy, most,
                               Jitter(tools_.parts.random));
    tools_.share.Leave(backend);
    entry = tools_.table.Find(number);
    if (entry == nullptr || outcome.kind == ResendOutcome::Kind::kSettled) co_return;
    resend = &entry->resends[operation];
    resend->next = tools_.parts.clock.Now() + outcome.pause;
    if (outcome.kind == ResendOutcome::Kind::kStuck) resend->stuck = outcome.reason;
  }
  open.unknown = who + " took effect";
  if (resend->stuck) {
    if (!resend->stuck->empty()) open.unknown += ": " + *resend->stuck;
    co_return;
  }
  open.until = MonoTime::max();
  open.next =
      std::min(open.next, std::max(resend->next, tools_.parts.clock.Now() + limits::kFlowTick));
}

}  // namespace recourse
