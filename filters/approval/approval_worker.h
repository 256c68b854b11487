// Looks after the operations that wait for humans: ends them when their time is over or their
// policy changes, and sends what was approved, once, also after a restart.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/approval/first_answers.h"
#include "filters/approval_queue.h"
#include "filters/credentials/credentials.h"
#include "filters/filter.h"
#include "filters/ledger/ledger.h"
#include "proxy/base/clock.h"
#include "proxy/base/due_queue.h"
#include "proxy/base/limits.h"
#include "proxy/base/work_loop.h"

namespace recourse {

// Everything happens on the thread of Parts::executor; Watch, PolicyChanged, Stop and what says so
// may be called on any thread. Outlives every job that it posted.
class ApprovalWorker final : public ApprovalQueue {
 public:
  struct Parts {
    Ledger& ledger;
    Executor& executor;
    Timer& timer;
    const Clock& clock;
    // The policy of that digest, if it is in force here or at a process with the same ledger, else
    // the one in force here. Thread-safe.
    std::function<std::shared_ptr<const Policy>(const Digest& asked)> policy;
    ReadSecret read_secret;  // on the runner's thread, whenever something is to be sent
    // The chain from `idempotency` on, on the runner's thread.
    std::function<Task<Result<Outcome>>(RequestContext&)> send;
    // Called on the runner's thread with every event that began to wait or was decided.
    std::function<void(const Event&)> tell;
    KeepOwn keep{};
  };
  explicit ApprovalWorker(Parts parts)
      : parts_(std::move(parts)),
        loop_(parts_.executor, parts_.timer, parts_.clock, limits::kApprovalTick) {}
  ApprovalWorker(const ApprovalWorker&) = delete;
  ApprovalWorker& operator=(const ApprovalWorker&) = delete;

  // Loads what waits, then works until Stop(). Returns when the last call on its way has ended.
  // Call once, on the runner's thread.
  Task<void> Run();
  // There is more than Run() has loaded: what waited at another process that ended. Thread-safe;
  // once Run() runs.
  void LoadMore();
  // Ends Run() within kApprovalTick plus a backend's timeout.
  void Stop() { loop_.Stop(); }

  void Watch(const Event& claim) override;
  void KeepFirstAnswer(AttemptId of, HttpResponse answer) override {
    first_answers_.Put(of, std::move(answer));
  }
  std::optional<HttpResponse> TakeFirstAnswer(AttemptId of) override {
    return first_answers_.Take(of);
  }
  // Another policy is in force: what waits under an older one is void.
  void PolicyChanged();

  // For operators. Blocking: call from an admin thread, never from an I/O thread. Fail with a line
  // for people. `order.policy` is filled in.
  std::expected<ApprovalOutcome, std::string> Decide(ApprovalOrder order);
  // What waits for a human or was approved, ascending by operation, at most `limit`.
  std::expected<std::vector<PendingApproval>, std::string> List(std::uint64_t after,
                                                                std::size_t limit);
  // The operation's latest event; both tell in its detail why what was approved is not sent yet.
  std::expected<Event, std::string> Read(std::uint64_t operation);
  // Lets go whoever waits in Decide, List or Read, now and later: the runner's thread ends.
  // Thread-safe.
  void Close() { loop_.Close(); }

  // The same on the runner's thread, without blocking it.
  Task<std::expected<ApprovalOutcome, std::string>> DecideNow(ApprovalOrder order);
  Task<std::expected<Event, std::string>> ReadNow(std::uint64_t operation);

 private:
  struct Entry {
    MonoTime ends;           // when its time is over
    std::string obstacle{};  // why it is not sent although it was approved; for operators
  };

  Task<void> Load();
  void Track(std::uint64_t operation, MonoTime due, MonoTime ends);
  MonoTime EndOf(const ApprovalFacts& facts) const;
  void SetDue(std::uint64_t operation, MonoTime due);
  void Forget(std::uint64_t operation);
  void Tick();
  Task<void> Work(std::uint64_t operation);
  Task<void> Send(Event approved);
  // Tells operators why it cannot be sent yet, and ends it for `reason` if its time is over.
  Task<void> Delay(const Event& approved, std::string obstacle, std::string_view reason);
  void AddObstacle(Event& event) const;
  Task<std::expected<std::vector<PendingApproval>, std::string>> ListNow(std::uint64_t after,
                                                                         std::size_t limit);

  const Parts parts_;
  WorkLoop loop_;
  FirstAnswers first_answers_;

  // Owned by the runner's thread.
  std::map<std::uint64_t, Entry> entries_;  // by operation
  DueQueue<std::uint64_t> due_;             // its keys
};

}  // namespace recourse
