#include "filters/saga/flow_table.h"

#include <algorithm>

#include "filters/saga/flow_rules.h"
#include "proxy/base/limits.h"

namespace recourse {

// A deadline counts from the wall clock of its first step, so that time without a process counts
// too, but after a start never ends a flow before its agent had a chance to come back.
void FlowTable::Track(const FlowState& state, Millis grace) {
  const MonoTime now = clock_.Now();
  std::optional<MonoTime> due;
  if (IsWorkedOn(state.phase)) {
    due = now;
  } else if (state.phase == FlowPhase::kOpen && state.has_deadline) {
    const auto policy = policy_(state.policy_version);
    const Millis elapsed(
        std::max<std::int64_t>(0, ToUnixMillis(clock_.WallNow()) - state.began_ms));
    const auto left = policy ? FlowTimeLeft(*policy, state, elapsed) : std::nullopt;
    due = now + std::max(left.value_or(Millis(0)), grace);  // unknown: somebody has to look at it
  }
  if (!due) {
    Forget(state.number);
    return;
  }
  FlowEntry& entry = entries_[state.number];
  entry.id = state.id;
  entry.caller = state.caller;
  entry.began_ms = state.began_ms;
  if (state.phase == FlowPhase::kBreaking && entry.settle_until == MonoTime{}) {
    entry.settle_until = now + limits::kFlowSettleFor;
  }
  due_.Set(state.number, *due);
}

void FlowTable::Forget(std::uint64_t number) {
  due_.Forget(number);
  entries_.erase(number);
}

bool FlowTable::IsOf(const FlowState& state) {
  const FlowEntry* const entry = Find(state.number);
  return entry != nullptr && entry->began_ms == state.began_ms && entry->id == state.id &&
         entry->caller == state.caller;
}

FlowEntry* FlowTable::Find(std::uint64_t number) {
  const auto at = entries_.find(number);
  return at == entries_.end() ? nullptr : &at->second;
}

std::optional<FlowTable::Work> FlowTable::Take(MonoTime now) {
  const std::optional<std::uint64_t> number = due_.Take(now);
  if (!number) return std::nullopt;
  const Work work{*number, ++works_};
  entries_.at(*number).work = work.id;
  return work;
}

bool FlowTable::IsMine(Work work) {
  const FlowEntry* const entry = Find(work.number);
  return entry != nullptr && entry->work == work.id;
}

void FlowTable::End(Work work) {
  if (IsMine(work)) due_.PutBack(work.number);
}

}  // namespace recourse
