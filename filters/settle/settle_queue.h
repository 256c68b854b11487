// Operations of unknown outcome that are being settled: when each is probed next, how many probes
// are under way, and who waits. Does no I/O.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/message.h"
#include "filters/outcome_resolver.h"
#include "filters/settle/probe.h"
#include "proxy/base/clock.h"
#include "proxy/base/due_queue.h"
#include "proxy/base/executor.h"
#include "proxy/base/random.h"
#include "proxy/base/task.h"

namespace recourse {

// Somebody who waits for an operation to leave UNCERTAIN.
struct SettleWaiter {
  MonoTime deadline;
  Executor* executor;
  std::shared_ptr<Promise<Settled>> told;
};

// A task that a server has made of the call.
struct WatchedTask {
  TaskPace pace;
  std::string name;  // NameOfTask; empty: it has none
  bool is_running = false;
  bool is_lost = false;  // it will not tell; what is left is the policy's probe
};

struct SettleEntry {
  Event event;  // its answer only where KeepsAnswer
  std::optional<WatchedTask> task;
  std::shared_ptr<const Policy> policy;  // that the operation began under
  ProbeHistory history;
  MonoTime probed_at{};  // end of the last probe
  bool is_probing = false;
  std::vector<SettleWaiter> waiters;
};

// Used on one thread, but for size(). An entry stands still until it is forgotten.
class SettleQueue {
 public:
  SettleQueue(const Clock& clock, Random& random) : clock_(clock), random_(random) {}

  // nullptr: it is not settled here.
  SettleEntry* Find(std::uint64_t operation);
  // The one whose task has that name. Where it is not exactly one, it is not known which one is
  // meant: 0.
  std::uint64_t OperationOfTask(const std::string& name) const;
  // Thread-safe.
  std::size_t size() const { return size_; }

  // A later attempt replaces what is known of an earlier one. Does nothing when this is full.
  void Add(Event event, std::shared_ptr<const Policy> policy);
  void SetNext(const SettleEntry& entry, MonoTime at);
  MonoTime NextOf(const SettleEntry& entry) const { return due_.TimeOf(entry.event.operation); }
  // Probed once more when `rule` says so; who cannot wait until then is told.
  void Reschedule(SettleEntry& entry, const SettleRule& rule);
  void Forget(std::uint64_t operation, Settled what);

  // Its next probe comes as soon as it may. False: who would not live to see it is told at once.
  bool Await(std::uint64_t operation, SettleWaiter waiter);
  void Tell(SettleEntry& entry, Settled what);
  void ExpireWaiters();
  // The process ends: nobody's outcome will be found any more.
  void ForgetAwaited();

  // Gives every entry that is due, and that a place for a probe is free for, to `start`, which
  // calls Begin().
  void StartDue(const std::function<void(SettleEntry&)>& start);
  void Begin(SettleEntry& entry);
  void End(const std::string& backend);
  // Some were due while as many probes of their backend were under way as may be.
  bool is_crowded() const { return !crowded_.empty(); }
  // When the next may be begun; nullopt: nothing is settled here.
  std::optional<MonoTime> next() const;

 private:
  using Due = std::pair<MonoTime, std::uint64_t>;  // when, and which operation

  // What has been due for longest and may be probed now; null when nothing may.
  SettleEntry* LongestCrowdedOut();
  void TakeFromCrowd(const SettleEntry& entry);
  void TellWhoCannotWait(SettleEntry& entry, const SettleRule& rule);

  const Clock& clock_;
  Random& random_;
  std::atomic<std::size_t> size_{0};
  std::map<std::uint64_t, SettleEntry> entries_;
  DueQueue<std::uint64_t> due_;  // its keys; taken: they are being probed, or crowded out
  // By backend; no set is empty.
  std::map<std::string, std::set<Due>> crowded_;
  std::set<std::uint64_t> waiting_;             // entries with waiters
  std::map<std::string, std::size_t> probing_;  // probes under way by backend
  // Probes under way. Second looks take no place of one: their bound is the caller's.
  std::size_t active_ = 0;
  std::multimap<std::string, std::uint64_t> tasks_;  // entries by NameOfTask
  std::size_t answers_bytes_ = 0;
};

}  // namespace recourse
