// The ledger with a thread of its own and group commit: while one batch is being made durable the
// next one forms. There is no linger: it costs latency and wins nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "filters/ledger/commit/commit_loop.h"
#include "filters/ledger/commit/request_queue.h"
#include "filters/ledger/engine/engine.h"
#include "filters/ledger/engine/logged_ledger.h"
#include "filters/ledger/ledger.h"

namespace recourse {

class GroupCommitLedger final : public LoggedLedger {
 public:
  // `engine` has been started (recovery.h). `clock` outlives the ledger.
  GroupCommitLedger(std::unique_ptr<Engine> engine, const Clock& clock);
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
  LedgerStats Stats() override;
  void SetRule(const LedgerRule& rule) override;
  std::expected<std::unique_ptr<LedgerCopy>, std::string> StartCopy() override;
  std::expected<void, std::string> AcceptRestoredBackup() override;
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;

 private:
  Result<std::vector<bool>> AreNewest(const std::vector<OperationRow>& rows) override;
  LogHead CommittedHead() override;

  group_commit::RequestQueue queue_;
  group_commit::CommitLoop loop_;  // on thread_, which alone uses the engine, but for what says so
  std::thread thread_;
};

}  // namespace recourse
