// The ledger with a thread of its own and group commit: while one batch is being made durable the
// next one forms. There is no linger: it costs latency and wins nothing (performance.md 3c).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/checkpointer.h"
#include "filters/ledger/join_table.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/ledger_engine.h"

namespace recourse {

class GroupCommitLedger final : public Ledger {
 public:
  // `engine` has been started (recovery.h). `clock` outlives the ledger.
  GroupCommitLedger(std::unique_ptr<LedgerEngine> engine, const Clock& clock);
  // Refuses new verbs, finishes what is queued, writes the last marks and the index.
  ~GroupCommitLedger() override;

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override;
  Task<Result<Event>> Record(Transition transition, Executor& executor) override;
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override;
  void MarkAnswered(std::uint64_t operation) override;
  Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                        Executor& executor) override;
  Result<EventPage> List(const EventFilter& filter) override;
  Result<std::optional<Event>> Find(std::uint64_t id) override;
  VerifyReport Verify() override;
  LedgerStats Stats() override;
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;

 private:
  // A verb in the queue. It lives in the frame of the coroutine that waits for its promise.
  struct BeginWait;
  struct RecordWait;
  struct OpenWait;
  struct Answered {
    std::uint64_t operation = 0;
  };
  using Request = std::variant<BeginWait*, RecordWait*, JoinWait*, OpenWait*, Answered>;

  // What waits for the commit of the batch being built.
  struct Durable {
    Executor* executor = nullptr;
    std::shared_ptr<PendingCommit> commit;
  };
  struct LateBegin {
    BeginWait* wait = nullptr;
    std::uint64_t seq = 0;
  };

  // Called by any thread.
  Result<void> Submit(Request request, std::size_t queue_max);

  // On the ledger's thread.
  void Run();
  bool WaitForWork();
  void Process();
  void Take(BeginWait* wait);
  void Take(RecordWait* wait);
  void Take(JoinWait* wait);
  void Take(OpenWait* wait);
  void Take(Answered answered);
  void FinishBatch();
  bool CommitBatch();
  void CompleteBatch(bool is_durable);
  void CompleteLateBegin(const LateBegin& late, bool is_durable);
  void CompleteJoinsOf(std::uint64_t operation);
  void StartJoin(JoinWait* wait);
  void ExpireJoins();
  void Checkpoint();
  void ClearDamagedIndex();
  void Shutdown();
  template <class Wait>
  void Complete(Wait* wait);
  void AddJob(Executor* executor, Job job);
  void PostJobs();
  void Publish();

  // constant after construction
  const Clock& clock_;
  const std::unique_ptr<LedgerEngine> engine_;  // used by the ledger's thread only, but for log()

  // set before the first verb
  std::function<void(double, std::size_t)> observer_;

  // owned by the ledger's thread
  std::vector<Request> taken_;
  std::vector<Durable> durables_;
  std::vector<RecordWait*> records_;
  std::vector<LateBegin> late_begins_;
  std::vector<JoinWait*> new_joins_;
  std::vector<OpenWait*> opens_;
  std::vector<std::pair<Executor*, std::vector<Job>>> jobs_;
  JoinTable joins_;
  std::optional<MonoTime> marks_due_;
  bool index_is_cleared_ = false;
  Checkpointer checkpointer_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Request> queue_;  // guarded by mutex_
  bool is_stopping_ = false;    // guarded by mutex_
  LedgerStats stats_;           // guarded by mutex_
  LogHead published_head_;      // guarded by mutex_

  std::thread thread_;
};

}  // namespace recourse
