// The part of SettleWorker that asks whether what a backend has taken on is done (`settled_by`).
#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/stored_call.h"
#include "filters/settle/late_answer.h"
#include "filters/settle/settle_worker.h"

namespace recourse {
namespace {

// Counted from when it was taken on, also over restarts.
Millis TakenOnFor(const SettleEntry& entry, const Clock& clock) {
  const auto here = std::chrono::duration_cast<Millis>(clock.Now() - entry.history.since);
  return std::max(here, Millis(ToUnixMillis(clock.WallNow()) - entry.event.wall_ms));
}

}  // namespace

Task<void> SettleWorker::AskWhetherDone(std::uint64_t operation,
                                        std::shared_ptr<const Policy> policy, ProbeTarget target) {
  SettleEntry* entry = queue_.Find(operation);
  const Event event = entry->event;
  const SettledByRule& rule = *target.tool->settled_by;
  const Result<Answer> answer =
      co_await sender_.AskWhetherDone(event, policy, target, entry->history.probes + 1);
  entry = queue_.Find(operation);
  if (entry == nullptr || entry->event.attempt != event.attempt) co_return;
  const MonoTime now = parts_.clock.Now();
  entry->probed_at = now;
  ++entry->history.probes;
  if (answer) {
    auto done = DoneTransition(event, *target.tool, *answer, CapturesOf(event, *policy),
                               KeyRuleOf(event, policy.get()));
    if (done) {
      co_await Record(operation, std::move(*done));
      co_return;
    }
  }
  const Millis left = rule.deadline - TakenOnFor(*entry, parts_.clock);
  entry->is_probing = false;
  if (left <= Millis(0)) {
    LoseTask(*entry, *target.tool, "its deadline is over");
    co_return;
  }
  WatchedTask& task = *entry->task;
  task.is_running = answer && IsSuccess(answer->response.status);
  const Millis pause = TaskPause(task.pace, entry->history.probes, Jitter(parts_.random));
  queue_.SetNext(*entry, now + std::min(pause, std::max(left, limits::kSettleTick)));
  queue_.Tell(*entry, task.is_running ? Settled::kRunning : Settled::kNo);
}

}  // namespace recourse
