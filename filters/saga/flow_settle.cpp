// The part of FlowWorker that finds out what became of a broken flow's steps.
#include <algorithm>
#include <utility>

#include "filters/saga/flow_worker.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/mcp_limits.h"

namespace recourse {

// What runs is awaited, what is unknown is settled; then the list of what has to be undone stands.
Task<std::optional<FlowState>> FlowWorker::Settle(FlowState state) {
  RC_CRASH_POINT("k17");
  Entry* const entry = Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  const MonoTime now = parts_.clock.Now();
  if (entry->settle_until == MonoTime{}) entry->settle_until = now + limits::kFlowSettleFor;
  OpenSteps open;
  open.until = now;  // nothing is waited for that nothing can find out
  open.next = MonoTime::max();
  for (const FlowStep& step : state.steps) {
    if (IsOpen(step.phase)) co_await SettleStep(state.number, step.operation, open);
  }
  auto latest = co_await Get(state.number);
  if (!latest || latest->phase != FlowPhase::kBreaking) co_return latest;
  const bool is_open = std::any_of(latest->steps.begin(), latest->steps.end(),
                                   [](const FlowStep& step) { return IsOpen(step.phase); });
  if (!is_open) {
    co_return co_await Move({.number = state.number,
                             .from = FlowPhase::kBreaking,
                             .to = FlowPhase::kUndoing,
                             .cause = FlowCause::kSettled,
                             .reason = latest->reason});
  }
  if (open.unread != 0) co_return co_await Park(*latest, UnreadReason(open.unread));
  if (!open.is_running && parts_.clock.Now() >= open.until) {
    co_return co_await Park(*latest, "nobody knows whether " + open.unknown);
  }
  // A step that was stuck beside one that still runs is looked at again with it.
  if (Find(state.number) != nullptr) {
    due_.Set(state.number, std::min(open.next, now + limits::kUndoBackoffMax));
  }
  co_return std::nullopt;
}

Task<void> FlowWorker::SettleStep(std::uint64_t number, std::uint64_t operation, OpenSteps& open) {
  auto event = co_await Look(number, operation);
  Entry* const entry = Find(number);
  const MonoTime soon = parts_.clock.Now() + limits::kProbeBackoffFirst;
  if (!event && IsLostToReading(number)) {
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
  open.unknown = event->tool + " (operation " + std::to_string(operation) + ") took effect";
  MonoTime until = entry->settle_until;
  const auto policy = parts_.policy(event->policy_version);
  const Tool* const tool = policy ? policy->FindTool(event->tool) : nullptr;
  if (tool != nullptr && tool->settle && tool->settle->absent_after) {
    until += *tool->settle->absent_after;
  }
  const MonoTime task_until = entry->settle_until + limits::kMcpTaskAwaitedFor;
  parts_.settling.Watch(*event);
  Settled settled = Settled::kNo;
  if (Lane& lane = lanes_[event->backend]; lane.sending < limits::kUndosPerBackendMax) {
    ++lane.sending;
    settled = co_await parts_.settling.SettleNow(operation, parts_.clock.Now() + limits::kHold,
                                                 parts_.executor);
    Leave(event->backend);
  }  // else it is probed all the same
  // Its server says that it will come to an end, or that nobody will hear of that.
  if (settled == Settled::kRunning) until = std::max(until, task_until);
  if (settled == Settled::kLost) {
    open.unknown += ": its task has ended without telling, or is forgotten";
    if (!event->settle) co_return;
  }
  open.until = std::max(open.until, until);
}

Task<void> FlowWorker::ResendStep(std::uint64_t number, Event unknown, OpenSteps& open) {
  const std::uint64_t operation = unknown.operation;
  const std::string who = unknown.tool + " (operation " + std::to_string(operation) + ")";
  const auto policy = parts_.policy(unknown.policy_version);
  const auto in_force = parts_.policy(std::string());
  Entry* entry = Find(number);
  Resend* resend = &entry->resends[operation];
  if (!resend->stuck) resend->stuck = ObjectionToResend(unknown, policy.get(), in_force.get());
  const bool is_due = !resend->stuck && resend->next <= parts_.clock.Now();
  if (is_due && !Enter(number, unknown.backend, *policy)) {
    resend->next = std::min(due_.TimeOf(number), parts_.clock.Now() + limits::kUndoBackoffFirst);
  } else if (is_due) {
    const Tool* const tool = policy->FindTool(unknown.tool);
    int most = tool != nullptr && tool->undo ? tool->undo->attempts_max : limits::kUndoAttemptsMax;
    const bool by_human = entry->by_human.erase(operation) > 0;
    if (by_human) most = std::max(most, unknown.attempt + 1);
    const std::string backend = unknown.backend;
    const ResendOutcome outcome = co_await resender_.Try(
        std::move(unknown), policy, by_human ? in_force : policy, most, Jitter(parts_.random));
    Leave(backend);
    entry = Find(number);
    if (entry == nullptr || outcome.kind == ResendOutcome::Kind::kSettled) co_return;
    resend = &entry->resends[operation];
    resend->next = parts_.clock.Now() + outcome.pause;
    if (outcome.kind == ResendOutcome::Kind::kStuck) resend->stuck = outcome.reason;
  }
  open.unknown = who + " took effect";
  if (resend->stuck) {
    if (!resend->stuck->empty()) open.unknown += ": " + *resend->stuck;
    co_return;
  }
  open.until = MonoTime::max();
  open.next = std::min(open.next, std::max(resend->next, parts_.clock.Now() + limits::kFlowTick));
}

}  // namespace recourse
