// Finds out, by the policy's probes and by the tasks of MCP servers, whether operations of unknown
// outcome had their effect: in the background, and at once when a repeat asks.
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

#include "filters/call/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/mcp/mcp_task.h"
#include "filters/outcome_resolver.h"
#include "filters/settle/probe.h"
#include "filters/tracing.h"
#include "filters/upstream.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/random.h"
#include "proxy/base/work_loop.h"

namespace recourse {

// Everything happens on the thread of Parts::executor; Watch, SettleNow, SettleBy, Tell and Stop
// may be called on any thread and post there. Outlives every job that it posted.
class SettleWorker final : public OutcomeResolver {
 public:
  struct Parts {
    Ledger& ledger;
    Upstream& upstream;  // of the settler's thread
    Executor& executor;
    Timer& timer;
    const Clock& clock;
    Random& random;
    // The policy of that version, or the one in force when it is lost. Thread-safe.
    std::function<std::shared_ptr<const Policy>(const std::string& version)> policy;
    // Told of an outcome that breaks its flow; may be unset.
    std::function<void(const Event& settled)> breaks_flow{};
    // Told of each probe of that tool; may be unset.
    std::function<void(const std::string& tool, ProbeVerdict verdict)> probed{};
    SpanSink* tracing = nullptr;  // null: traces are off
    // For the credentials that the undo of a tool has; unset: its tasks are asked about without.
    ReadSecret read_secret{};
    KeepOwn keep{};
    std::string install_secret{};  // for the marks of effects
  };
  explicit SettleWorker(Parts parts)
      : parts_(std::move(parts)),
        loop_(parts_.executor, parts_.timer, parts_.clock, limits::kSettleTick) {}
  SettleWorker(const SettleWorker&) = delete;
  SettleWorker& operator=(const SettleWorker&) = delete;

  // Loads what is open in the ledger, then probes until Stop(). Returns when the last probe has
  // ended. Call once, on the settler's thread.
  Task<void> Run();
  // Ends Run() within kSettleTick plus a probe's timeout; waiting repeats are told false.
  void Stop() { loop_.Stop(); }

  // Operations that are being settled; before Run() has loaded what is open, one too many. Each
  // that Watch() was told of is counted when Watch() returns. Thread-safe.
  std::size_t settling() const { return to_add_ + watched_; }

  void Watch(const Event& uncertain) override;
  Task<Settled> SettleNow(std::uint64_t operation, MonoTime deadline, Executor& executor) override;
  Task<std::expected<Event, std::string>> SettleBy(HumanWord word,
                                                   std::optional<Transition::FlowEffect> effect,
                                                   Executor& executor) override;
  void Tell(ServerReport news) override;
  Task<SecondLook> LookAgain(Event absent, Executor& executor) override;
  Task<bool> SaysGone(Event undone, Executor& executor) override;

 private:
  struct Waiter {
    MonoTime deadline;
    Executor* executor;
    std::shared_ptr<Promise<Settled>> told;
  };
  // A task that an MCP server has made of the call.
  struct Asked {
    TaskPace pace;
    std::string name;  // NameOfTask
    bool is_running = false;
    bool is_lost = false;  // it will not tell; what is left is the policy's probe
  };
  struct Entry {
    Event event;  // its answer only where KeepsAnswer
    std::optional<Asked> task;
    std::shared_ptr<const Policy> policy;  // that the operation began under
    ProbeHistory history;
    MonoTime next_at;
    MonoTime probed_at{};  // end of the last probe
    bool is_probing = false;
    std::vector<Waiter> waiters;
  };

  using Due = std::pair<MonoTime, std::uint64_t>;  // when, and which operation

  Task<void> LoadOpen();
  void Add(Event event, std::shared_ptr<const Policy> policy);
  void AddWaiter(std::uint64_t operation, Waiter waiter);
  // Answers waiters that are out of time and starts the probes that are due.
  void Tick();
  void ExpireWaiters();
  // What has been due for longest and may be probed now; null when nothing may.
  Entry* LongestCrowdedOut();
  void TakeFromQueues(const Entry& entry);
  void Start(Entry& entry);
  std::optional<MonoTime> NextTick() const;
  Task<void> Probe(std::uint64_t operation);
  Task<Result<Answer>> Ask(const Backend& backend, HttpRequest request, std::size_t bytes_max,
                           OwnRequest told);
  Task<SecondLook> ProbeAbsent(Event absent);
  Task<bool> ProbeUndone(Event undone);
  // Whom the policy that the operation began under asks about it; nullopt: that is lost, or there
  // is nobody.
  struct Asker {
    const Tool* tool;
    const Backend* backend;
  };
  static std::optional<Asker> AskerOf(const Event& event,
                                      const std::shared_ptr<const Policy>& policy);
  // Sends its settle request, of a search as often as that has pages. `number` counts the probes.
  Task<ProbeReading> AskAbout(Event event, std::shared_ptr<const Policy> policy, const Tool& tool,
                              const Backend& backend, int number);
  Task<std::expected<Event, std::string>> RecordWord(HumanWord word,
                                                     std::optional<Transition::FlowEffect> effect);
  // Makes a verdict durable; true: the operation is no longer ours.
  Task<bool> Conclude(std::uint64_t operation, const Tool& tool, ProbeReading reading,
                      MonoTime sent_at);
  Task<bool> Record(std::uint64_t operation, Transition transition);
  Task<Result<Event>> RecordAs(const Event& uncertain, const Policy* policy, Transition transition);
  // What was found to have had its effect leaves the marks of it.
  void NoteEffect(const Event& uncertain, const Policy* policy, Transition& transition) const;
  void Reschedule(Entry& entry, const SettleRule& rule);
  void SetNext(Entry& entry, MonoTime at);
  void TellWaiters(Entry& entry, const SettleRule& rule);
  void TellAll(Entry& entry, Settled what);
  void Forget(std::uint64_t operation, Settled what);

  // The tool whose rules an operation is settled by; nullptr: the policy has none.
  static const Tool* FindToolFor(const Event& event, const Policy& policy);

  // settle_tasks.cpp: what MCP servers say of their tasks, to us and to agents.
  static std::optional<Asked> TaskOf(const Event& event);
  Task<void> AskTask(std::uint64_t operation, std::shared_ptr<const Policy> policy,
                     const Tool& tool, const Backend& backend);
  Task<TaskReport> AskAs(std::string method, RenderedRequest asked, const Event& event,
                         std::shared_ptr<const Policy> policy, const Tool& tool,
                         const Backend& backend);
  void TakeReport(Entry& entry, const Tool& tool, const TaskReport& report);
  Task<void> TakeNews(ServerReport news);
  Task<void> TakeLateAnswer(ServerReport news);
  std::uint64_t OperationOfTask(const ServerReport& news) const;

  const Parts parts_;
  WorkLoop loop_;
  std::atomic<std::size_t> to_add_{1};   // Watch() posted them; and the loading of what is open
  std::atomic<std::size_t> watched_{0};  // entries_.size()
  std::atomic<std::size_t> news_{0};     // told, and not looked at

  // Owned by the settler's thread.
  std::map<std::uint64_t, Entry> entries_;
  std::set<Due> due_;  // entries that are neither being probed nor crowded out
  // Entries that were due while as many probes of their backend were under way as may be, by
  // backend; no set is empty.
  std::map<std::string, std::set<Due>> crowded_;
  std::set<std::uint64_t> waiting_;             // entries with waiters
  std::map<std::string, std::size_t> probing_;  // probes under way by backend
  // Probes under way. Second looks take no place of one: their bound is the caller's.
  std::size_t active_ = 0;
  std::multimap<std::string, std::uint64_t> tasks_;  // entries by NameOfTask
  std::size_t answers_bytes_ = 0;
};

}  // namespace recourse
