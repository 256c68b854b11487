#include "filters/settle/settle_queue.h"

#include <algorithm>
#include <iterator>

#include "filters/call/codecs.h"
#include "filters/call/stored_call.h"
#include "filters/settle/late_answer.h"
#include "filters/settle/reply.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// What is kept of it beside its names.
std::size_t SizeOf(const Event& event) {
  std::size_t size = event.answer.body.size();
  for (const auto& [name, value] : event.answer.headers) size += name.size() + value.size();
  return event.state ? size + BytesOf(*event.state) : size;
}

std::optional<WatchedTask> TaskOf(const Event& event, const Policy* policy) {
  if (!event.task) return std::nullopt;
  WatchedTask watched;
  const Backend* const backend = policy == nullptr ? nullptr : FindBackend(*policy, event.backend);
  if (backend == nullptr) return watched;
  const Codec& codec = CodecOf(*backend);
  watched.name = codec.NameOfTask(event.backend, event.caller, *event.task);
  watched.pace = codec.PaceOfTask(event.answer.body);
  return watched;
}

void TellWaiter(const SettleWaiter& waiter, Settled what) {
  Reply(*waiter.executor, waiter.told, what);
}

Settled NotYet(const SettleEntry& entry) {
  return entry.task && entry.task->is_running ? Settled::kRunning : Settled::kNo;
}

}  // namespace

SettleEntry* SettleQueue::Find(std::uint64_t operation) {
  const auto at = entries_.find(operation);
  return at == entries_.end() ? nullptr : &at->second;
}

std::uint64_t SettleQueue::OperationOfTask(const std::string& name) const {
  const auto [first, last] = tasks_.equal_range(name);
  return std::distance(first, last) == 1 ? first->second : 0;
}

void SettleQueue::Add(Event event, std::shared_ptr<const Policy> policy) {
  const SettleEntry* const known = Find(event.operation);
  // The absence of a later attempt has to be shown anew.
  const bool is_same = known != nullptr && known->event.key == event.key;
  if (is_same && known->event.attempt >= event.attempt) return;
  if (known != nullptr) Forget(event.operation, Settled::kYes);
  if (entries_.size() >= limits::kOpenOperationsMax) return;
  event.request.reset();
  if (!KeepsAnswer(event)) {
    event.answer_kept = false;
    event.answer = HttpResponse();
  }
  const std::size_t bytes = SizeOf(event);
  if (bytes > limits::kSettleAnswersBytesMax - answers_bytes_) return;
  answers_bytes_ += bytes;
  const MonoTime now = clock_.Now();
  SettleEntry entry;
  entry.event = std::move(event);
  entry.task = TaskOf(entry.event, policy.get());
  entry.policy = std::move(policy);
  entry.history.since = now;
  // An agent that was given a task asks about it by himself.
  const MonoTime next = entry.task ? now + TaskPause(entry.task->pace, 1, Jitter(random_)) : now;
  const std::uint64_t operation = entry.event.operation;
  if (entry.task) tasks_.emplace(entry.task->name, operation);
  due_.Set(operation, next);
  entries_.emplace(operation, std::move(entry));
  size_ = entries_.size();
}

void SettleQueue::TakeFromCrowd(const SettleEntry& entry) {
  const auto crowd = crowded_.find(entry.event.backend);
  if (crowd == crowded_.end()) return;
  crowd->second.erase({NextOf(entry), entry.event.operation});
  if (crowd->second.empty()) crowded_.erase(crowd);
}

void SettleQueue::SetNext(const SettleEntry& entry, MonoTime at) {
  TakeFromCrowd(entry);
  due_.Set(entry.event.operation, at);
  if (due_.IsTaken(entry.event.operation)) due_.PutBack(entry.event.operation);
}

void SettleQueue::Reschedule(SettleEntry& entry, const SettleRule& rule) {
  entry.is_probing = false;
  const MonoTime now = clock_.Now();
  SetNext(entry, now + ProbePause(rule, entry.history, now, Jitter(random_)));
  TellWhoCannotWait(entry, rule);
}

void SettleQueue::Forget(std::uint64_t operation, Settled what) {
  const auto at = entries_.find(operation);
  if (at == entries_.end()) return;
  SettleEntry entry = std::move(at->second);
  answers_bytes_ -= SizeOf(entry.event);
  TakeFromCrowd(entry);
  due_.Forget(operation);
  if (entry.task) {
    const auto [first, last] = tasks_.equal_range(entry.task->name);
    tasks_.erase(
        std::find_if(first, last, [&](const auto& one) { return one.second == operation; }));
  }
  entries_.erase(at);
  size_ = entries_.size();
  Tell(entry, what);
}

bool SettleQueue::Await(std::uint64_t operation, SettleWaiter waiter) {
  SettleEntry* const entry = Find(operation);
  const MonoTime now = clock_.Now();
  if (entry == nullptr || now >= waiter.deadline) {
    TellWaiter(waiter, Settled::kNo);
    return false;
  }
  // Many repeats share a probe, and probes of one operation keep a distance.
  const Millis distance = std::max(entry->task ? entry->task->pace.poll : Millis(0),
                                   Millis(limits::kProbeBackoffFirst));
  const MonoTime earliest = entry->history.probes == 0 ? now : entry->probed_at + distance;
  if (entry->task && !entry->is_probing && earliest >= waiter.deadline) {
    TellWaiter(waiter, NotYet(*entry));
    return false;
  }
  entry->waiters.push_back(std::move(waiter));
  waiting_.insert(operation);
  if (!entry->is_probing) SetNext(*entry, std::min(NextOf(*entry), std::max(now, earliest)));
  return true;
}

void SettleQueue::Tell(SettleEntry& entry, Settled what) {
  for (const SettleWaiter& waiter : entry.waiters) TellWaiter(waiter, what);
  entry.waiters.clear();
  waiting_.erase(entry.event.operation);
}

void SettleQueue::TellWhoCannotWait(SettleEntry& entry, const SettleRule& rule) {
  const bool may_be_proven = rule.absent_after && entry.event.http_status != 202;
  const MonoTime provable =
      may_be_proven ? entry.history.since + *rule.absent_after : MonoTime::max();
  std::erase_if(entry.waiters, [&](const SettleWaiter& waiter) {
    if (provable < waiter.deadline && NextOf(entry) < waiter.deadline) return false;
    TellWaiter(waiter, entry.task ? Settled::kLost : Settled::kNo);
    return true;
  });
  if (entry.waiters.empty()) waiting_.erase(entry.event.operation);
}

void SettleQueue::ExpireWaiters() {
  const MonoTime now = clock_.Now();
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    SettleEntry& entry = entries_.at(*at);
    std::erase_if(entry.waiters, [&](const SettleWaiter& waiter) {
      if (now < waiter.deadline) return false;
      TellWaiter(waiter, NotYet(entry));
      return true;
    });
    at = entry.waiters.empty() ? waiting_.erase(at) : std::next(at);
  }
}

void SettleQueue::ForgetAwaited() {
  while (!waiting_.empty()) Forget(*waiting_.begin(), Settled::kNo);
}

SettleEntry* SettleQueue::LongestCrowdedOut() {
  const Due* first = nullptr;
  for (const auto& [backend, crowd] : crowded_) {
    const auto probing = probing_.find(backend);
    const bool is_full =
        probing != probing_.end() && probing->second >= limits::kProbesPerBackendMax;
    if (!is_full && (first == nullptr || *crowd.begin() < *first)) first = &*crowd.begin();
  }
  return first == nullptr ? nullptr : &entries_.at(first->second);
}

void SettleQueue::StartDue(const std::function<void(SettleEntry&)>& start) {
  while (active_ < limits::kProbesAtOnceMax) {
    SettleEntry* const entry = LongestCrowdedOut();
    if (entry == nullptr) break;
    start(*entry);
  }
  const MonoTime now = clock_.Now();
  for (std::size_t looked = 0;
       looked < limits::kSettleScanMax && active_ < limits::kProbesAtOnceMax; ++looked) {
    const auto operation = due_.Take(now);
    if (!operation) break;
    SettleEntry& entry = entries_.at(*operation);
    const auto probing = probing_.find(entry.event.backend);
    if (probing == probing_.end() || probing->second < limits::kProbesPerBackendMax) {
      start(entry);
    } else {
      // One backend that hangs must not hold up the others.
      crowded_[entry.event.backend].emplace(NextOf(entry), *operation);
    }
  }
}

void SettleQueue::Begin(SettleEntry& entry) {
  TakeFromCrowd(entry);
  entry.is_probing = true;
  ++probing_[entry.event.backend];
  ++active_;
}

void SettleQueue::End(const std::string& backend) {
  if (--probing_[backend] == 0) probing_.erase(backend);
  --active_;
}

std::optional<MonoTime> SettleQueue::next() const {
  if (entries_.empty()) return std::nullopt;
  if (active_ >= limits::kProbesAtOnceMax) return MonoTime::max();
  return due_.next().value_or(MonoTime::max());
}

}  // namespace recourse
