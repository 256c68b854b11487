#include "filters/settle/settle_worker.h"

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/stored_call.h"
#include "filters/settle/reply.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::size_t kOpenPage = 256;
constexpr int kLoadTriesMax = 6'000;  // one a tick: ten minutes

// What an undo waits for is its flow's to ask.
bool IsSettledHere(const Event& event) {
  return event.phase == Phase::kUncertain && event.undoes == 0 && (event.settle || event.task);
}

}  // namespace

SettleWorker::SettleWorker(Parts parts)
    : parts_(std::move(parts)),
      loop_(parts_.executor, parts_.timer, parts_.clock, limits::kSettleTick),
      sender_({parts_.upstream, parts_.clock, parts_.tracing, parts_.read_secret, parts_.keep}),
      recorder_({parts_.ledger, parts_.executor, parts_.breaks_flow, parts_.install_secret}),
      queue_(parts_.clock, parts_.random) {}

const Tool* SettleWorker::FindToolFor(const Event& event, const Policy& policy) {
  const bool is_unlisted = event.tool == "unlisted." + event.backend;
  return is_unlisted ? &UnlistedTool() : policy.FindTool(event.tool);
}

Task<void> SettleWorker::Run() {
  co_await LoadOpen();
  --to_add_;
  co_await loop_.Run([this] { Tick(); }, [this] { return queue_.next(); });
  queue_.ForgetAwaited();
  co_await loop_.Drain();
}

Task<void> SettleWorker::LoadOpen() {
  std::uint64_t after = 0;
  int failures = 0;
  for (std::size_t seen = 0; seen < limits::kOpenOperationsMax && !loop_.is_stopping();) {
    const Result<std::vector<Event>> page =
        co_await parts_.ledger.Open(after, kOpenPage, parts_.executor);
    if (!page) {
      const bool is_last = ++failures == kLoadTriesMax;
      if (failures == 1 || is_last) {
        Log(LogLevel::kError,
            is_last ? "open operations cannot be read; they are settled when repeated"
                    : "open operations cannot be read; it is tried again",
            {{"reason", page.error().detail()}});
      }
      if (is_last) co_return;
      Tick();  // what became unknown since the start is probed meanwhile
      co_await parts_.timer.SleepUntil(parts_.clock.Now() + limits::kSettleTick);
      continue;
    }
    if (page->empty()) co_return;
    for (const Event& event : *page) {
      after = std::max(after, event.operation);
      if (IsSettledHere(event)) {
        Add(event, parts_.policy(event.policy_version));
      }
    }
    seen += page->size();
  }
}

void SettleWorker::LoadMore() {
  ++to_add_;
  loop_.Post([this] {
    loop_.Spawn(LoadOpen(), [this] {
      --to_add_;
      Tick();
      loop_.Wake();
    });
  });
}

void SettleWorker::Watch(const Event& uncertain) {
  if (!IsSettledHere(uncertain)) return;
  ++to_add_;
  // Taken here: the caller's request still holds that policy.
  loop_.Post([this, event = uncertain, policy = parts_.policy(uncertain.policy_version)]() mutable {
    Add(std::move(event), std::move(policy));
    --to_add_;
    Tick();
    loop_.Wake();
  });
}

void SettleWorker::Add(Event event, std::shared_ptr<const Policy> policy) {
  if (!loop_.is_stopping()) queue_.Add(std::move(event), std::move(policy));
}

Task<Settled> SettleWorker::SettleNow(std::uint64_t operation, MonoTime deadline,
                                      Executor& executor) {
  const auto told = std::make_shared<Promise<Settled>>();
  loop_.Post([this, operation, waiter = SettleWaiter{deadline, &executor, told}]() mutable {
    if (loop_.is_stopping()) return Reply(*waiter.executor, waiter.told, Settled::kNo);
    if (!queue_.Await(operation, std::move(waiter))) return;
    Tick();
    loop_.Wake();
  });
  co_return co_await told->Wait();
}

void SettleWorker::Tick() {
  if (loop_.is_stopping()) return;
  queue_.ExpireWaiters();
  queue_.StartDue([this](SettleEntry& entry) { Start(entry); });
}

void SettleWorker::Start(SettleEntry& entry) {
  queue_.Begin(entry);
  loop_.Spawn(Probe(entry.event.operation), [this, backend = entry.event.backend] {
    queue_.End(backend);
    if (queue_.is_crowded() && !loop_.is_stopping()) loop_.Post([this] { Tick(); });
  });
}

Task<void> SettleWorker::Probe(std::uint64_t operation) {
  const SettleEntry& entry = *queue_.Find(operation);
  const std::shared_ptr<const Policy> policy = entry.policy;
  const Event event = entry.event;
  const Tool* const tool = FindToolFor(event, *policy);
  const Backend* const backend = FindBackend(*policy, event.backend);
  if (tool != nullptr && backend != nullptr && entry.task && !entry.task->is_lost) {
    const bool has_task = CodecOf(*backend).AsksAboutTask(*event.task);
    co_await (tool->settled_by && !has_task ? AskWhetherDone(operation, policy, {tool, backend})
                                            : AskTask(operation, policy, {tool, backend}));
    co_return;
  }
  if (tool == nullptr || !tool->settle || backend == nullptr) {
    // Its own policy is lost, and no other says how to read the answer.
    queue_.Forget(operation, Settled::kNo);
    co_return;
  }
  const MonoTime sent_at = parts_.clock.Now();
  ProbeReading reading =
      co_await sender_.AskAbout(event, policy, {tool, backend}, entry.history.probes + 1);
  if (parts_.probed) parts_.probed(tool->name, reading.verdict);
  SettleEntry* still = queue_.Find(operation);
  if (still == nullptr || still->event.attempt != event.attempt) co_return;
  still->probed_at = parts_.clock.Now();
  ++still->history.probes;
  const bool is_done = co_await Conclude(operation, *tool, std::move(reading), sent_at);
  still = queue_.Find(operation);
  if (is_done || still == nullptr || still->event.attempt != event.attempt) co_return;
  queue_.Reschedule(*still, *tool->settle);
}

Task<bool> SettleWorker::Conclude(std::uint64_t operation, const Tool& tool, ProbeReading reading,
                                  MonoTime sent_at) {
  SettleEntry& entry = *queue_.Find(operation);
  ProbeHistory& history = entry.history;
  switch (reading.verdict) {
    case ProbeVerdict::kPresent:
      co_await Record(operation, PresentTransition(entry.event, FindingOf(reading, tool), tool,
                                                   CapturesOf(entry.event, *entry.policy),
                                                   KeyRuleOf(entry.event, entry.policy.get())));
      co_return true;
    case ProbeVerdict::kAbsent:
      if (!WasSentUnderOneKey(entry.event)) break;
      if (!AbsenceCounts(*tool.settle, history, sent_at, entry.event.http_status)) break;
      if (++history.answers_absent < limits::kProbesAbsentMin) break;
      co_await Record(operation, AbsentTransition(entry.event));
      co_return true;
    case ProbeVerdict::kNothing:
      history.answers_absent = 0;
      break;
  }
  co_return false;
}

Task<void> SettleWorker::Record(std::uint64_t operation, Transition transition) {
  const std::uint16_t attempt = transition.attempt;
  const SettleEntry& known = *queue_.Find(operation);
  const Event uncertain = known.event;
  const std::shared_ptr<const Policy> policy = known.policy;
  const auto recorded = co_await recorder_.Record(uncertain, policy.get(), std::move(transition));
  // kInternal: someone else moved it. A failed ledger stays failed, so there is no second try.
  const bool has_moved = recorded || recorded.error().code() == ErrorCode::kInternal;
  const SettleEntry* const still = queue_.Find(operation);
  if (still != nullptr && still->event.attempt == attempt) {
    queue_.Forget(operation, has_moved ? Settled::kYes : Settled::kNo);
  }
}

}  // namespace recourse
