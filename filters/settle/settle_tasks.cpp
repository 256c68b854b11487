// The part of SettleWorker that learns what servers say of their tasks: asks about those that
// nobody asks about, and reads what agents are told.
#include <algorithm>

#include "filters/call/codecs.h"
#include "filters/call/stored_call.h"
#include "filters/ledger/model/row_id.h"
#include "filters/settle/late_answer.h"
#include "filters/settle/settle_worker.h"
#include "proxy/base/log/log.h"
#include "proxy/base/message_limits.h"

namespace recourse {
Task<void> SettleWorker::AskTask(std::uint64_t operation, std::shared_ptr<const Policy> policy,
                                 ProbeTarget target) {
  const Event event = queue_.Find(operation)->event;
  const TaskReport report = co_await sender_.AskAboutTask(event, std::move(policy), target);
  SettleEntry* const entry = queue_.Find(operation);
  if (entry == nullptr || entry->event.attempt != event.attempt) co_return;
  entry->probed_at = parts_.clock.Now();
  ++entry->history.probes;
  if (report.state == TaskReport::State::kEnded) {
    auto transition = EndedTransition(CodecOf(*target.backend), event, *target.tool, report, {});
    if (transition) {
      co_await Record(operation, std::move(*transition));
      co_return;
    }
  }
  TakeReport(*entry, *target.tool, report);
}

// It is not known yet.
void SettleWorker::TakeReport(SettleEntry& entry, const Tool& tool, const TaskReport& report) {
  using State = TaskReport::State;
  WatchedTask& task = *entry.task;
  entry.is_probing = false;
  if (report.state == State::kRunning) task.pace = report.pace;
  if (report.state != State::kUnclear) task.is_running = report.state == State::kRunning;
  // A result that could not be had may be had the next time.
  const bool is_over =
      report.state == State::kGone || (report.state == State::kEnded && !report.is_apart);
  const MonoTime now = parts_.clock.Now();
  if (!is_over) {
    queue_.SetNext(entry, now + TaskPause(task.pace, entry.history.probes, Jitter(parts_.random)));
    queue_.Tell(entry, task.is_running ? Settled::kRunning : Settled::kNo);
    return;
  }
  LoseTask(entry, tool, report.state == State::kGone ? "not known to the server" : report.status);
}

void SettleWorker::LoseTask(SettleEntry& entry, const Tool& tool, std::string_view why) {
  entry.task->is_lost = true;
  Log(LogLevel::kWarn, "what its server works on does not tell whether the call acted",
      {{"tool", entry.event.tool},
       {"operation", PrintRowId(entry.event.operation)},
       {"status", why}});
  if (!tool.settle) {
    queue_.Forget(entry.event.operation, Settled::kLost);
    return;
  }
  const MonoTime now = parts_.clock.Now();
  entry.history = ProbeHistory{.since = now};
  queue_.SetNext(entry, now);
}

void SettleWorker::Tell(ServerReport news) {
  if (news_ >= limits::kNewsMax) return;
  ++news_;
  loop_.Post([this, told = std::move(news)]() mutable {
    --news_;
    if (loop_.is_stopping()) return;
    loop_.Spawn(TakeNews(std::move(told)));
  });
}

// The answer to one attempt settles that attempt, and no later one.
Task<void> SettleWorker::TakeLateAnswer(ServerReport news) {
  const auto event = co_await parts_.ledger.Read(news.operation, parts_.executor);
  if (!event || event->phase != Phase::kUncertain || event->attempt != news.attempt) co_return;
  if (event->key != news.key) co_return;  // another call has its number
  const auto policy = parts_.policy(event->policy_version);
  const Tool* const tool = policy ? FindToolFor(*event, *policy) : nullptr;
  const Backend* const backend = policy ? FindBackend(*policy, event->backend) : nullptr;
  if (tool == nullptr || backend == nullptr) co_return;
  const Codec& codec = CodecOf(*backend);
  const auto final = codec.ReadFinal(news.message);
  if (!final) co_return;
  auto transition = LateTransition(codec, *event, *tool, *final, {});
  if (!transition) co_return;
  const auto recorded = co_await recorder_.Record(*event, policy.get(), std::move(*transition));
  if (!recorded) co_return;
  queue_.Forget(news.operation, Settled::kYes);
}

Task<void> SettleWorker::TakeNews(ServerReport news) {
  if (news.operation != 0) {
    co_await TakeLateAnswer(std::move(news));
    co_return;
  }
  const std::uint64_t operation =
      queue_.OperationOfTask(NameOfTask(news.backend, news.caller, news.session, news.task));
  SettleEntry* const known = queue_.Find(operation);
  if (known == nullptr) co_return;
  SettleEntry& entry = *known;
  // The backend may lead to another server by now, whose tasks are others.
  const Backend* const backend = FindBackend(*entry.policy, entry.event.backend);
  if (backend == nullptr || ServerKeyOf(*backend) != news.server) co_return;
  const TaskReport report = CodecOf(*backend).ReadTask(news.method, news.message);
  if (!report.task.empty() && report.task != news.task) co_return;
  if (report.state == TaskReport::State::kRunning) {
    // Its agent asks: no need to.
    entry.task->is_running = true;
    entry.task->pace = report.pace;
    const MonoTime later =
        parts_.clock.Now() + std::max(3 * report.pace.poll, Millis(limits::kTaskAskedFor));
    if (!entry.is_probing && entry.waiters.empty() && queue_.NextOf(entry) < later)
      queue_.SetNext(entry, later);
    co_return;
  }
  const std::shared_ptr<const Policy> policy = entry.policy;
  const Tool* const tool = FindToolFor(entry.event, *policy);
  if (report.state != TaskReport::State::kEnded || tool == nullptr) co_return;
  auto transition = EndedTransition(CodecOf(*backend), entry.event, *tool, report, {});
  if (!transition) {
    // Its result has to be asked for: by the agent next, else by us.
    const MonoTime soon = parts_.clock.Now() + limits::kProbeBackoffFirst;
    if (!entry.is_probing && soon < queue_.NextOf(entry)) queue_.SetNext(entry, soon);
    co_return;
  }
  // Whether the agent gets what passes is not known yet: it counts as not answered.
  co_await Record(operation, std::move(*transition));
}

}  // namespace recourse
