// The ledger with a thread of its own and group commit: while one batch is being made durable the
// next one forms. There is no linger: it costs latency and wins nothing.
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

#include "filters/ledger/engine/join_table.h"
#include "filters/ledger/engine/ledger_engine.h"
#include "filters/ledger/index/checkpointer.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/audit.h"
#include "filters/ledger/queries/operation_queries.h"

namespace recourse {

class GroupCommitLedger final : public Ledger, public OperationLister, public LedgerAuditor {
 public:
  // `engine` has been started (recovery.h). `clock` outlives the ledger.
  GroupCommitLedger(std::unique_ptr<LedgerEngine> engine, const Clock& clock);
  // Refuses new verbs, finishes what is queued, writes the last marks and the index.
  ~GroupCommitLedger() override;

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override;
  Task<Result<Event>> Record(Transition transition, Executor& executor) override;
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override;
  Task<Result<Event>> Read(std::uint64_t operation, Executor& executor) override;
  Task<Result<ApprovalOutcome>> Decide(ApprovalOrder order, Executor& executor) override;
  Task<Result<std::vector<PendingApproval>>> Claims(std::uint64_t after, std::size_t limit,
                                                    Executor& executor) override;
  void MarkAnswered(AttemptId answered) override;
  void MarkUnread(AttemptId answered) override;
  Task<Result<std::vector<Event>>> Open(std::uint64_t after, std::size_t limit,
                                        Executor& executor) override;
  Task<Result<FlowState>> MoveFlow(FlowMove move, Executor& executor) override;
  Task<Result<std::optional<FlowState>>> FindOpenFlow(std::string caller, std::string flow,
                                                      Executor& executor) override;
  Task<Result<std::vector<FlowState>>> Flows(std::uint64_t after, std::size_t limit,
                                             Executor& executor) override;
  Result<void> RecordPolicy(const PolicyChange& change) override;
  Result<void> RecordOrder(const OperatorOrder& order) override;
  Result<std::vector<LoggedRow>> Rows(std::uint64_t after, std::uint64_t up_to,
                                      std::size_t limit) override;
  Result<EventPage> List(const EventFilter& filter) override;
  Result<std::optional<Event>> Find(std::uint64_t id) override;
  Result<OperationPage> Operations(const OperationFilter& filter) override;
  Result<std::optional<FlowState>> FindFlow(std::uint64_t number) override;
  Result<std::vector<FlowState>> NewestFlows(std::size_t limit) override;
  VerifyReport Verify() override;
  LedgerStats Stats() override;
  void SetRule(const LedgerRule& rule) override;
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override;
  std::expected<void, std::string> AcceptRestoredBackup() override;
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;

 private:
  // A verb in the queue. It lives in the frame of whoever waits for its promise; a note, whose
  // waiter may leave, is shared.
  struct BeginWait;
  struct RecordWait;
  struct OpenWait;
  struct MoveWait;
  struct FlowsWait;
  struct DecideWait;
  struct ClaimsWait;
  struct NoteWait;
  struct NewestWait;
  struct Answered {
    AttemptId attempt;
    MonoTime due{};  // written by then
    bool is_read = true;
  };
  using Request =
      std::variant<BeginWait*, RecordWait*, JoinWait*, OpenWait*, MoveWait*, FlowsWait*,
                   DecideWait*, ClaimsWait*, std::shared_ptr<NoteWait>, NewestWait*, Answered>;

  // What waits for the commit of the batch being built.
  struct Durable {
    Executor* executor = nullptr;
    std::shared_ptr<PendingCommit> commit;
  };
  struct LateBegin {
    BeginWait* wait = nullptr;
    std::uint64_t seq = 0;
  };

  // Called by any thread. Wakes the ledger's, unless that looks into the queue until `by` anyway.
  Result<void> Submit(Request request, std::size_t queue_max, MonoTime by = MonoTime::min());

  // On the ledger's thread.
  void Run();
  bool WaitForWork();
  void Process();
  void Take(BeginWait* wait);
  void Take(RecordWait* wait);
  void Take(JoinWait* wait);
  void Take(OpenWait* wait);
  void Take(MoveWait* wait);
  void Take(FlowsWait* wait);
  void Take(DecideWait* wait);
  void Take(ClaimsWait* wait);
  void Take(std::shared_ptr<NoteWait> wait);
  void Take(NewestWait* wait);
  void Take(Answered answered);
  void FinishBatch();
  bool CommitBatch();
  void CompleteBatch(bool is_durable);
  void CompleteFlows(bool is_durable);
  void CompleteApprovals(bool is_durable);
  void CompleteLateBegin(const LateBegin& late, bool is_durable);
  void CompleteJoinsOf(std::uint64_t operation);
  void StartJoin(JoinWait* wait);
  void ExpireJoins();
  void Retire();
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
  const std::unique_ptr<LedgerEngine> engine_;  // the ledger's thread only, but for what says so

  // set before the first verb
  std::function<void(double, std::size_t)> observer_;

  // owned by the ledger's thread
  std::vector<Request> taken_;
  std::vector<Durable> durables_;
  std::vector<RecordWait*> records_;
  std::vector<MoveWait*> moves_;
  std::vector<LateBegin> late_begins_;
  std::vector<JoinWait*> new_joins_;
  std::vector<OpenWait*> opens_;
  std::vector<FlowsWait*> flow_lists_;
  std::vector<DecideWait*> decisions_;
  std::vector<ClaimsWait*> claim_lists_;
  std::vector<std::shared_ptr<NoteWait>> notes_;
  std::vector<NewestWait*> newest_;
  std::vector<std::pair<Executor*, std::vector<Job>>> jobs_;
  JoinTable joins_;
  std::optional<MonoTime> marks_due_;
  std::optional<MonoTime> retire_due_;
  bool retire_failed_ = false;  // rows that cannot be read are not looked at again
  bool index_is_cleared_ = false;
  Checkpointer checkpointer_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Request> queue_;  // guarded by mutex_
  // When the ledger's thread looks into the queue again, unless woken; guarded by mutex_. min():
  // before it sleeps.
  MonoTime wakes_at_ = MonoTime::min();
  bool is_stopping_ = false;        // guarded by mutex_
  std::optional<LedgerRule> rule_;  // guarded by mutex_
  bool rule_is_new_ = false;        // guarded by mutex_
  LedgerStats stats_;               // guarded by mutex_
  LogHead published_head_;          // guarded by mutex_

  std::thread thread_;
};

}  // namespace recourse
