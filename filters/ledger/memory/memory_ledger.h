// The ledger without a thread: every verb decides and completes inside the call.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/join_table.h"
#include "filters/ledger/engine/logged_ledger.h"
#include "filters/ledger/ledger.h"

namespace recourse {

class MemoryLedger final : public LoggedLedger {
 public:
  // `engine` has been started (recovery.h). `clock` outlives the ledger.
  MemoryLedger(std::unique_ptr<Engine> engine, const Clock& clock);
  // Joins that still wait get nullopt.
  ~MemoryLedger() override;

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
  LedgerStats Stats() override;
  void SetRule(const LedgerRule& rule) override;
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;

 private:
  Result<std::vector<bool>> AreNewest(const std::vector<OperationRow>& rows) override;
  LogHead CommittedHead() override;
  Result<Begun> BeginNow(NewOperation& operation);
  Result<Event> RecordNow(Transition& transition);
  // True: it waits. False: `wait.result` is the answer.
  bool JoinNow(JoinWait& wait);
  Result<void> CommitNow();
  void Checkpoint();
  void Retire();
  // The joins that have ended. They are completed without the lock: whoever is resumed may call
  // the ledger again.
  void TakeJoinsOf(std::uint64_t operation, std::vector<JoinWait*>& ended);
  std::vector<JoinWait*> TakeEndedJoins(std::optional<std::uint64_t> moved);

  // set before the first verb
  std::function<void(double, std::size_t)> observer_;

  std::mutex mutex_;                // guards the engine, but for its log()
  JoinTable joins_;                 // guarded by mutex_
  std::optional<LedgerRule> rule_;  // guarded by mutex_
  MonoTime retire_due_{};           // guarded by mutex_
};

}  // namespace recourse
