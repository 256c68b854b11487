// The part of FlowWorker that undoes the steps of a broken flow, one at a time.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filters/saga/flow_worker.h"
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

// Between two requests to one backend.
MonoTime::duration Apart(const Policy& policy) {
  return MonoTime::duration(std::chrono::seconds(1)) /
         std::max(1, policy.flow_rules.undos_per_second);
}

// How far the requests to one backend may lag behind their rate and catch up: less than one of
// them at a low rate, and at a high one what a tick of the clock may hold up.
MonoTime::duration Credit(MonoTime::duration apart) {
  return apart * (MonoTime::duration(limits::kFlowTick) / apart);
}

}  // namespace

Task<std::optional<FlowState>> FlowWorker::UndoNext(FlowState state) {
  Entry* entry = Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  const FlowStep* const step = NextToUndo(state, entry->passed);
  if (step == nullptr) {
    if (!entry->passed.empty()) {
      co_return co_await Park(state, "some of its steps could not be undone");
    }
    co_return co_await LookBack(std::move(state));
  }
  RC_CRASH_POINT("k21");
  const auto event = co_await Look(state.number, step->operation);
  if (!event) {
    if (!IsLostToReading(state.number)) co_return std::nullopt;
    co_return co_await Park(state, UnreadReason(step->operation));
  }
  const auto policy = parts_.policy(event->policy_version);
  const Tool* const tool = policy ? policy->FindTool(event->tool) : nullptr;
  const Flow* const flow = policy ? policy->FindFlow(state.name) : nullptr;
  entry = Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  const UndoDecision decision = UnlessLost(DecideUndo(*event, tool, flow), *event, policy.get(),
                                           entry->by_human.contains(step->operation));
  if (decision.kind == UndoDecision::Kind::kSkip) {
    co_return co_await PassOver(std::move(state), step->operation, {});
  }
  UndoOutcome outcome{UndoOutcome::Kind::kStuck, decision.reason, {}};
  if (decision.kind == UndoDecision::Kind::kSend) {
    if (!Enter(state.number, event->backend, *policy)) co_return std::nullopt;
    outcome = co_await SendUndo(state.number, *step, *event, policy);
    Leave(event->backend);
  }
  entry = Find(state.number);
  if (entry == nullptr) co_return std::nullopt;
  switch (outcome.kind) {
    case UndoOutcome::Kind::kDone:
      co_return co_await Get(state.number);
    case UndoOutcome::Kind::kNotNeeded:
      co_return co_await PassOver(std::move(state), event->operation, outcome.reason);
    case UndoOutcome::Kind::kAgain:
      due_.Set(state.number, parts_.clock.Now() + outcome.pause);
      co_return std::nullopt;
    case UndoOutcome::Kind::kStuck:
      break;
  }
  if (flow != nullptr && flow->continue_on_stuck) {
    entry->passed.push_back(step->operation);
    co_return co_await Get(state.number);
  }
  co_return co_await Park(
      state, fmt::format("step {} ({}): {}", step->operation, event->tool, outcome.reason));
}

// Its effect needs no undo; `story` is what the flow tells of that beside why it broke.
Task<std::optional<FlowState>> FlowWorker::PassOver(FlowState state, std::uint64_t operation,
                                                    const std::string& story) {
  std::string reason = state.reason;
  if (!story.empty()) reason += (reason.empty() ? "" : "; ") + story;
  co_return co_await Move({.number = state.number,
                           .from = FlowPhase::kUndoing,
                           .to = FlowPhase::kUndoing,
                           .cause = state.cause,
                           .reason = std::move(reason),
                           .not_needed = {operation}});
}

Task<UndoOutcome> FlowWorker::SendUndo(std::uint64_t number, const FlowStep& step,
                                       const Event& event, std::shared_ptr<const Policy> policy) {
  const Tool* const tool = policy->FindTool(event.tool);
  const int allowed =
      tool != nullptr && tool->undo ? tool->undo->attempts_max : limits::kUndoAttemptsMax;
  // A human's word is good for one try of the step that was stuck.
  const bool by_human = entries_.at(number).by_human.erase(step.operation) > 0;
  UndoOutcome outcome = co_await sender_.Try(event, policy, step.undo_base + allowed, by_human,
                                             Jitter(parts_.random), step.undo);
  if (parts_.tried) parts_.tried(event.tool, outcome.kind);
  co_return outcome;
}

// Whoever may not send now gives up the place that it holds among the flows that are worked on, so
// that a backend that hangs, or many requests to one, hold up no other.
bool FlowWorker::Enter(std::uint64_t number, const std::string& backend, const Policy& policy) {
  Entry& entry = entries_.at(number);
  Lane& lane = lanes_[backend];
  const MonoTime now = parts_.clock.Now();
  if (lane.sending >= limits::kUndosPerBackendMax) {
    lane.waiting.insert(number);
    due_.Set(number, now + limits::kUndoBackoffMax);
    return false;
  }
  if (!entry.slot) {
    const MonoTime::duration apart = Apart(policy);
    entry.slot = std::max(lane.next, now - Credit(apart));
    lane.next = *entry.slot + apart;
  }
  if (*entry.slot > now) {
    due_.Set(number, *entry.slot);
    return false;
  }
  entry.slot.reset();
  ++lane.sending;
  return true;
}

void FlowWorker::Leave(const std::string& backend) {
  Lane& lane = lanes_[backend];
  --lane.sending;
  while (!lane.waiting.empty()) {
    const std::uint64_t number = *lane.waiting.begin();
    lane.waiting.erase(lane.waiting.begin());
    if (Find(number) == nullptr) continue;
    due_.Set(number, parts_.clock.Now());
    TickSoon();
    return;
  }
}

}  // namespace recourse
