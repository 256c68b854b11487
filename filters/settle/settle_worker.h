// Finds out, by the policy's probes and by the tasks of their servers, whether operations of
// unknown outcome had their effect: in the background, and at once when a repeat asks.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "filters/credentials/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "filters/settle/probe_sender.h"
#include "filters/settle/settle_queue.h"
#include "filters/settle/settle_recorder.h"
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
  explicit SettleWorker(Parts parts);
  SettleWorker(const SettleWorker&) = delete;
  SettleWorker& operator=(const SettleWorker&) = delete;

  // Loads what is open in the ledger, then probes until Stop(). Returns when the last probe has
  // ended. Call once, on the settler's thread.
  Task<void> Run();
  // More is open than Run() has loaded: what another process left. Thread-safe; once Run() runs.
  void LoadMore();
  // Ends Run() within kSettleTick plus a probe's timeout; waiting repeats are told false.
  void Stop() { loop_.Stop(); }

  // Operations that are being settled; before Run() has loaded what is open, one too many. Each
  // that Watch() was told of is counted when Watch() returns. Thread-safe.
  std::size_t settling() const { return to_add_ + queue_.size(); }

  void Watch(const Event& uncertain) override;
  Task<Settled> SettleNow(std::uint64_t operation, MonoTime deadline, Executor& executor) override;
  Task<std::expected<Event, std::string>> SettleBy(HumanWord word,
                                                   std::optional<Transition::FlowEffect> effect,
                                                   Executor& executor) override;
  void Tell(ServerReport news) override;
  Task<SecondLook> LookAgain(Event absent, Executor& executor) override;
  Task<bool> SaysGone(Event undone, Executor& executor) override;

 private:
  Task<void> LoadOpen();
  void Add(Event event, std::shared_ptr<const Policy> policy);
  // Answers waiters that are out of time and starts the probes that are due.
  void Tick();
  void Start(SettleEntry& entry);
  // Probes, or asks about its task.
  Task<void> Probe(std::uint64_t operation);
  Task<SecondLook> ProbeAbsent(Event absent);
  Task<bool> ProbeUndone(Event undone);
  Task<std::expected<Event, std::string>> TakeWord(HumanWord word,
                                                   std::optional<Transition::FlowEffect> effect);
  // Makes a verdict durable; true: the operation is no longer ours.
  Task<bool> Conclude(std::uint64_t operation, const Tool& tool, ProbeReading reading,
                      MonoTime sent_at);
  Task<void> Record(std::uint64_t operation, Transition transition);
  // The tool whose rules an operation is settled by; nullptr: the policy has none.
  static const Tool* FindToolFor(const Event& event, const Policy& policy);

  // settle_tasks.cpp: what servers say of their tasks, to us and to agents.
  Task<void> AskTask(std::uint64_t operation, std::shared_ptr<const Policy> policy,
                     ProbeTarget target);
  void TakeReport(SettleEntry& entry, const Tool& tool, const TaskReport& report);
  // Nobody will tell any more; what is left is the policy's probe.
  void LoseTask(SettleEntry& entry, const Tool& tool, std::string_view why);
  Task<void> TakeNews(ServerReport news);
  // settle_later.cpp: what was taken on, as `settled_by` tells of it.
  Task<void> AskWhetherDone(std::uint64_t operation, std::shared_ptr<const Policy> policy,
                            ProbeTarget target);
  Task<void> TakeLateAnswer(ServerReport news);

  const Parts parts_;
  WorkLoop loop_;
  ProbeSender sender_;
  SettleRecorder recorder_;
  SettleQueue queue_;
  std::atomic<std::size_t> to_add_{1};  // Watch() posted them; and the loading of what is open
  std::atomic<std::size_t> news_{0};    // told, and not looked at
};

}  // namespace recourse
