// The ledger in PostgreSQL: one lane, a thread with a connection and a stream of rows, takes the
// whole queue, reads what its verbs need in few round trips and commits their plans in batches.
// While the database is away, what begins waits a little and is refused, and what has ended waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "filters/ledger/engine/join_table.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/postgres/store.h"
#include "filters/ledger/postgres/verbs.h"
#include "filters/ledger/queries/audit.h"
#include "filters/ledger/queries/operation_queries.h"

namespace recourse {

class PostgresLedger final : public Ledger, public OperationLister, public LedgerAuditor {
 public:
  // `clock` outlives the ledger.
  PostgresLedger(PgLedgerOptions options, const Clock& clock);
  // Refuses new verbs and finishes what is queued, if the database answers.
  ~PostgresLedger() override;
  // Connects and begins a stream. Once, before anything else. Fails with a line for people.
  std::expected<void, std::string> Start();

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
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;

 private:
  // What is read whole once its facts are there.
  struct EventsWait;
  struct ClaimsWait;
  struct FlowsWait;
  struct NoteWait;
  using ListWait = std::variant<EventsWait*, ClaimsWait*, FlowsWait*>;
  struct Answered {
    AttemptId attempt;
    bool is_read = true;
  };
  using Request = std::variant<std::unique_ptr<PgVerb>, JoinWait*, ListWait,
                               std::shared_ptr<NoteWait>, Answered>;

  Result<void> Submit(Request request, std::size_t queue_max, bool begins = false);

  // On the lane's thread.
  void Run();
  bool WaitForWork();
  void Sort(Request request);
  void Work();
  void Serve();
  bool IsReady();
  void GiveUpWaiting();
  bool CommitBatch();
  bool Gather();
  void GatherRound(Wishes& wishes);
  bool Consider(PgVerb& verb, Wishes& wishes);
  bool Accept(PgVerb& verb, Plan& plan, Wishes& wishes);
  void Plot(PgVerb& verb, Plan& plan);
  void Finish(BatchEnd end);
  void FinishDone();
  void Keep(const PlannedRows& planned);
  void Keep(const EventWrite& write, const Changes& changes);
  void Lose(PgVerb& verb);
  void Drop(PgVerb& verb, Job job);
  void Restart(PgVerb& verb);
  bool FlushMarks();
  bool ServeReads();
  bool Fill(VerbFacts& facts, const std::function<bool()>& is_done);
  bool Serve(EventsWait& wait);
  bool Serve(ClaimsWait& wait);
  bool Serve(FlowsWait& wait);
  bool ServeJoins();
  bool Answer(JoinWait& wait, VerbFacts& facts, bool is_new);
  void ExpireJoins();
  std::expected<std::vector<PgRows>, PgFailure> Ask(const PgStatement& statement,
                                                    const PgArguments& arguments);
  void Shutdown();
  void Tell(Executor* executor, Job job);
  void PostJobs();
  void Publish();

  // constant after construction
  const PgLedgerOptions options_;
  const Clock& clock_;

  std::function<void(double, std::size_t)> observer_;  // set before the first verb

  // owned by the lane's thread
  LocalFacts local_;
  PgStore store_;
  std::vector<Request> taken_;
  std::deque<std::unique_ptr<PgVerb>> verbs_;
  std::vector<std::pair<PgVerb*, Plan*>> accepted_;  // beside plans_
  std::vector<PlannedRows> plans_;
  std::set<PgVerb*> deferred_;  // to the next batch
  std::vector<std::shared_ptr<NoteWait>> notes_;
  std::size_t notes_sent_ = 0;
  std::map<std::uint64_t, Answered> marks_;  // by operation
  std::optional<MonoTime> marks_due_;
  std::vector<JoinWait*> new_joins_;
  std::vector<ListWait> lists_;
  JoinTable joins_;
  std::set<std::uint64_t> joined_;  // operations in joins_
  Millis poll_every_{};
  bool polls_now_ = false;
  std::map<Uuid, StoredFlow> flows_;  // as this process wrote them last
  // Operations that it sends, as it wrote them last.
  struct Own {
    Uuid key{};
    StoredOperation operation;
    StoredRow row;
    QuotaUsage::Use* caller = nullptr;
  };
  std::map<std::uint64_t, Own> own_;
  bool is_in_doubt_ = false;
  Millis reconnect_after_{};
  std::vector<std::pair<Executor*, std::vector<Job>>> jobs_;
  std::uint64_t commits_ = 0;

  PgReader reader_;  // thread-safe

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Request> queue_;            // guarded by mutex_
  bool is_stopping_ = false;              // guarded by mutex_
  std::optional<MonoTime> away_since_{};  // guarded by mutex_
  LedgerStats stats_;                     // guarded by mutex_

  std::thread thread_;
};

}  // namespace recourse
