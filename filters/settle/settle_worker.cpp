#include "filters/settle/settle_worker.h"

#include <algorithm>

#include "filters/call/call_values.h"
#include "filters/call/key_placeholder.h"
#include "filters/call/stored_call.h"
#include "filters/flow_effect.h"
#include "filters/key/standing_marks.h"
#include "filters/settle/late_answer.h"
#include "filters/settle/reply.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr std::size_t kOpenPage = 256;
constexpr int kLoadTriesMax = 6'000;  // one a tick: ten minutes

// What is kept of it beside its names.
std::size_t SizeOf(const Event& event) {
  std::size_t size = event.answer.body.size();
  for (const auto& [name, value] : event.answer.headers) size += name.size() + value.size();
  return event.state ? size + BytesOf(*event.state) : size;
}

}  // namespace

const Tool* SettleWorker::FindToolFor(const Event& event, const Policy& policy) {
  const bool is_unlisted = event.tool == "unlisted." + event.backend;
  return is_unlisted ? &UnlistedTool() : policy.FindTool(event.tool);
}

Task<void> SettleWorker::Run() {
  co_await LoadOpen();
  --to_add_;
  co_await loop_.Run([this] { Tick(); }, [this] { return NextTick(); });
  while (!waiting_.empty()) Forget(*waiting_.begin(), Settled::kNo);
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
      if (event.phase == Phase::kUncertain && (event.settle || event.task)) {
        Add(event, parts_.policy(event.policy_version));
      }
    }
    seen += page->size();
  }
}

void SettleWorker::Watch(const Event& uncertain) {
  if (uncertain.phase != Phase::kUncertain || (!uncertain.settle && !uncertain.task)) return;
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
  const auto known = entries_.find(event.operation);
  // A later attempt replaces what is known of an earlier one; its absence has to be shown anew.
  if (known != entries_.end() && known->second.event.attempt >= event.attempt) return;
  if (known != entries_.end()) Forget(event.operation, Settled::kYes);
  if (loop_.is_stopping() || entries_.size() >= limits::kOpenOperationsMax) return;
  event.request.reset();
  if (!KeepsAnswer(event)) {
    event.answer_kept = false;
    event.answer = HttpResponse();
  }
  const std::size_t bytes = SizeOf(event);
  if (bytes > limits::kSettleAnswersBytesMax - answers_bytes_) return;
  answers_bytes_ += bytes;
  const MonoTime now = parts_.clock.Now();
  Entry entry;
  entry.event = std::move(event);
  entry.task = TaskOf(entry.event);
  entry.policy = std::move(policy);
  entry.history.since = now;
  // An agent that was given a task asks about it by himself.
  entry.next_at = entry.task ? now + TaskPause(entry.task->pace, 1, Jitter(parts_.random)) : now;
  const std::uint64_t operation = entry.event.operation;
  if (entry.task) tasks_.emplace(entry.task->name, operation);
  due_.emplace(entry.next_at, operation);
  entries_.emplace(operation, std::move(entry));
  watched_ = entries_.size();
}

Task<Settled> SettleWorker::SettleNow(std::uint64_t operation, MonoTime deadline,
                                      Executor& executor) {
  const auto told = std::make_shared<Promise<Settled>>();
  loop_.Post([this, operation, waiter = Waiter{deadline, &executor, told}]() mutable {
    AddWaiter(operation, std::move(waiter));
  });
  co_return co_await told->Wait();
}

void SettleWorker::AddWaiter(std::uint64_t operation, Waiter waiter) {
  const auto at = entries_.find(operation);
  const MonoTime now = parts_.clock.Now();
  if (at == entries_.end() || loop_.is_stopping() || now >= waiter.deadline) {
    Reply(*waiter.executor, waiter.told, Settled::kNo);
    return;
  }
  Entry& entry = at->second;
  // Many repeats share a probe, and probes of one operation keep a distance.
  const Millis distance =
      std::max(entry.task ? entry.task->pace.poll : Millis(0), Millis(limits::kProbeBackoffFirst));
  const MonoTime earliest = entry.history.probes == 0 ? now : entry.probed_at + distance;
  if (entry.task && !entry.is_probing && earliest >= waiter.deadline) {
    Reply(*waiter.executor, waiter.told, entry.task->is_running ? Settled::kRunning : Settled::kNo);
    return;
  }
  entry.waiters.push_back(std::move(waiter));
  waiting_.insert(operation);
  if (!entry.is_probing) SetNext(entry, std::min(entry.next_at, std::max(now, earliest)));
  Tick();
  loop_.Wake();
}

void SettleWorker::TakeFromQueues(const Entry& entry) {
  const Due due{entry.next_at, entry.event.operation};
  due_.erase(due);
  const auto crowd = crowded_.find(entry.event.backend);
  if (crowd == crowded_.end()) return;
  crowd->second.erase(due);
  if (crowd->second.empty()) crowded_.erase(crowd);
}

void SettleWorker::SetNext(Entry& entry, MonoTime at) {
  TakeFromQueues(entry);
  entry.next_at = at;
  due_.emplace(at, entry.event.operation);
}

std::optional<MonoTime> SettleWorker::NextTick() const {
  if (entries_.empty()) return std::nullopt;
  if (due_.empty() || active_ >= limits::kProbesAtOnceMax) return MonoTime::max();
  return due_.begin()->first;
}

void SettleWorker::Tick() {
  if (loop_.is_stopping()) return;
  ExpireWaiters();
  while (active_ < limits::kProbesAtOnceMax) {
    Entry* const entry = LongestCrowdedOut();
    if (entry == nullptr) break;
    Start(*entry);
  }
  const MonoTime now = parts_.clock.Now();
  for (std::size_t looked = 0; looked < limits::kSettleScanMax && !due_.empty() &&
                               active_ < limits::kProbesAtOnceMax && due_.begin()->first <= now;
       ++looked) {
    Entry& entry = entries_.at(due_.begin()->second);
    if (probing_[entry.event.backend] < limits::kProbesPerBackendMax) {
      Start(entry);
    } else {
      // One backend that hangs must not hold up the others.
      crowded_[entry.event.backend].insert(due_.extract(due_.begin()));
    }
  }
}

SettleWorker::Entry* SettleWorker::LongestCrowdedOut() {
  const Due* first = nullptr;
  for (const auto& [backend, crowd] : crowded_) {
    const auto probing = probing_.find(backend);
    const bool is_full =
        probing != probing_.end() && probing->second >= limits::kProbesPerBackendMax;
    if (!is_full && (first == nullptr || *crowd.begin() < *first)) first = &*crowd.begin();
  }
  return first == nullptr ? nullptr : &entries_.at(first->second);
}

void SettleWorker::ExpireWaiters() {
  const MonoTime now = parts_.clock.Now();
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Entry& entry = entries_.at(*at);
    std::erase_if(entry.waiters, [&](Waiter& waiter) {
      if (now < waiter.deadline) return false;
      Reply(*waiter.executor, waiter.told,
            entry.task && entry.task->is_running ? Settled::kRunning : Settled::kNo);
      return true;
    });
    at = entry.waiters.empty() ? waiting_.erase(at) : std::next(at);
  }
}

void SettleWorker::Start(Entry& entry) {
  TakeFromQueues(entry);
  entry.is_probing = true;
  const std::string backend = entry.event.backend;
  ++probing_[backend];
  ++active_;
  loop_.Spawn(Probe(entry.event.operation), [this, backend] {
    if (--probing_[backend] == 0) probing_.erase(backend);
    if (!crowded_.empty() && !loop_.is_stopping()) loop_.Post([this] { Tick(); });
    --active_;
  });
}

Task<void> SettleWorker::Probe(std::uint64_t operation) {
  const std::shared_ptr<const Policy> policy = entries_.at(operation).policy;
  const Event& event = entries_.at(operation).event;
  const std::uint16_t attempt = event.attempt;
  const Tool* const tool = FindToolFor(event, *policy);
  const Backend* backend = FindBackend(*policy, event.backend);
  const auto& task = entries_.at(operation).task;
  if (tool != nullptr && backend != nullptr && task && !task->is_lost) {
    co_await AskTask(operation, policy, *tool, *backend);
    co_return;
  }
  if (tool == nullptr || !tool->settle || backend == nullptr) {
    Forget(operation,
           Settled::kNo);  // its own policy is lost, and no other says how to read the answer
    co_return;
  }
  const MonoTime sent_at = parts_.clock.Now();
  const int number = entries_.at(operation).history.probes + 1;
  ProbeReading reading = co_await AskAbout(event, policy, *tool, *backend, number);
  if (parts_.probed) parts_.probed(tool->name, reading.verdict);
  const auto at = entries_.find(operation);
  if (at == entries_.end() || at->second.event.attempt != attempt) co_return;
  at->second.probed_at = parts_.clock.Now();
  ++at->second.history.probes;
  const bool is_done = co_await Conclude(operation, *tool, std::move(reading), sent_at);
  const auto still = entries_.find(operation);
  if (is_done || still == entries_.end() || still->second.event.attempt != attempt) co_return;
  Reschedule(still->second, *tool->settle);
}

Task<Result<Answer>> SettleWorker::Ask(const Backend& backend, HttpRequest request,
                                       std::size_t bytes_max, OwnRequest told) {
  // What was not asked is asked after the pause of a probe that tells nothing.
  const OwnRoom room(parts_.keep);
  if (!room.is_there) {
    co_return std::unexpected(Error(ErrorCode::kOverloaded, kNoRoom, Delivery::kNotSent));
  }
  const std::unique_ptr<UpstreamConnection> connection = parts_.upstream.Open(backend);
  connection->MayOpenSession();
  connection->HoldAnswerFor(room.keeper.get());
  const Result<void> connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  co_return co_await ExchangeTraced(*connection, std::move(request),
                                    parts_.clock.Now() + limits::kProbeTimeout, bytes_max,
                                    parts_.tracing, parts_.clock, std::move(told));
}

Task<bool> SettleWorker::Conclude(std::uint64_t operation, const Tool& tool, ProbeReading reading,
                                  MonoTime sent_at) {
  Entry& entry = entries_.at(operation);
  ProbeHistory& history = entry.history;
  switch (reading.verdict) {
    case ProbeVerdict::kPresent:
      co_return co_await Record(operation,
                                PresentTransition(entry.event, FindingOf(reading, tool), tool,
                                                  CapturesOf(entry.event, *entry.policy),
                                                  KeyRuleOf(entry.event, entry.policy.get())));
    case ProbeVerdict::kAbsent:
      if (!WasSentUnderOneKey(entry.event)) break;
      if (!AbsenceCounts(*tool.settle, history, sent_at, entry.event.http_status)) break;
      if (++history.answers_absent < limits::kProbesAbsentMin) break;
      co_return co_await Record(operation, AbsentTransition(entry.event));
    case ProbeVerdict::kNothing:
      history.answers_absent = 0;
      break;
  }
  co_return false;
}

Task<Result<Event>> SettleWorker::RecordAs(const Event& uncertain, const Policy* policy,
                                           Transition transition) {
  const Tool* const tool =
      uncertain.is_step && policy != nullptr ? policy->FindTool(uncertain.tool) : nullptr;
  if (tool != nullptr) transition.flow = FlowEffectOf(*policy, *tool, transition.to);
  NoteEffect(uncertain, policy, transition);
  const bool breaks_flow = transition.flow && transition.flow->to == FlowPhase::kBreaking;
  Result<Event> recorded = co_await parts_.ledger.Record(std::move(transition), parts_.executor);
  if (recorded && breaks_flow && parts_.breaks_flow) parts_.breaks_flow(*recorded);
  co_return recorded;
}

void SettleWorker::NoteEffect(const Event& uncertain, const Policy* policy,
                              Transition& transition) const {
  const Backend* const backend =
      policy == nullptr ? nullptr : FindBackend(*policy, uncertain.backend);
  if (backend == nullptr || uncertain.undoes != 0) return;
  AddEffect({policy, *backend, uncertain.path}, parts_.install_secret, uncertain, transition);
}

Task<bool> SettleWorker::Record(std::uint64_t operation, Transition transition) {
  const std::uint16_t attempt = transition.attempt;
  const Entry& known = entries_.at(operation);
  const Event uncertain = known.event;
  const std::shared_ptr<const Policy> policy = known.policy;
  const auto recorded = co_await RecordAs(uncertain, policy.get(), std::move(transition));
  // kInternal: someone else moved it. A failed ledger stays failed, so there is no second try.
  const bool has_moved = recorded || recorded.error().code() == ErrorCode::kInternal;
  const auto at = entries_.find(operation);
  if (at != entries_.end() && at->second.event.attempt == attempt) {
    Forget(operation, has_moved ? Settled::kYes : Settled::kNo);
  }
  co_return true;
}

void SettleWorker::Reschedule(Entry& entry, const SettleRule& rule) {
  entry.is_probing = false;
  const MonoTime now = parts_.clock.Now();
  entry.next_at = now + ProbePause(rule, entry.history, now, Jitter(parts_.random));
  due_.emplace(entry.next_at, entry.event.operation);
  TellWaiters(entry, rule);
}

void SettleWorker::TellWaiters(Entry& entry, const SettleRule& rule) {
  const bool may_be_proven = rule.absent_after && entry.event.http_status != 202;
  const MonoTime provable =
      may_be_proven ? entry.history.since + *rule.absent_after : MonoTime::max();
  std::erase_if(entry.waiters, [&](Waiter& waiter) {
    if (provable < waiter.deadline && entry.next_at < waiter.deadline) return false;
    Reply(*waiter.executor, waiter.told, entry.task ? Settled::kLost : Settled::kNo);
    return true;
  });
  if (entry.waiters.empty()) waiting_.erase(entry.event.operation);
}

void SettleWorker::TellAll(Entry& entry, Settled what) {
  for (Waiter& waiter : entry.waiters) Reply(*waiter.executor, waiter.told, what);
  entry.waiters.clear();
  waiting_.erase(entry.event.operation);
}

void SettleWorker::Forget(std::uint64_t operation, Settled what) {
  const auto at = entries_.find(operation);
  if (at == entries_.end()) return;
  Entry entry = std::move(at->second);
  answers_bytes_ -= SizeOf(entry.event);
  TakeFromQueues(entry);
  if (entry.task) {
    const auto [first, last] = tasks_.equal_range(entry.task->name);
    tasks_.erase(
        std::find_if(first, last, [&](const auto& one) { return one.second == operation; }));
  }
  entries_.erase(at);
  watched_ = entries_.size();
  TellAll(entry, what);
}

}  // namespace recourse
