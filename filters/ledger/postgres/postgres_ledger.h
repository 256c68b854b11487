// The ledger in PostgreSQL: verbs go through the lane, what operators ask over a connection beside
// it.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/lane.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/postgres/operators_ledger.h"
#include "filters/ledger/postgres/stream_watch.h"
#include "filters/ledger/queries/audit.h"

namespace recourse {

class PostgresLedger final : public PgOperatorsLedger, public LedgerAuditor {
 public:
  // `clock` outlives the ledger.
  PostgresLedger(PgLedgerOptions options, const Clock& clock);
  // What the watch waits for is told first.
  ~PostgresLedger() override { lane_.Stop(); }
  // Connects and begins a stream. Once, before anything else. Fails with a line for people.
  std::expected<void, Unopened> Start();

  Task<Result<Begun>> Begin(NewOperation operation, Executor& executor) override;
  Task<Result<Event>> Record(Transition transition, Executor& executor) override;
  Task<Result<std::optional<Event>>> Join(std::uint64_t operation, MonoTime deadline,
                                          Executor& executor) override;
  Task<Result<Event>> Read(std::uint64_t operation, Executor& executor) override;
  Task<Result<ApprovalOutcome>> Decide(ApprovalOrder order, Executor& executor) override;
  Task<Result<std::vector<PendingApproval>>> Claims(std::uint64_t after, std::size_t limit,
                                                    Executor& executor) override;
  Task<Result<std::vector<PendingApproval>>> OwnClaims(std::uint64_t after, std::size_t limit,
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
  Task<Result<std::vector<FlowState>>> OwnFlows(std::uint64_t after, std::size_t limit,
                                                Executor& executor) override;
  Result<void> RecordPolicy(const PolicyChange& change) override;
  Result<void> RecordOrder(const OperatorOrder& order) override;
  Result<std::vector<LoggedRow>> Rows(std::uint64_t after, std::uint64_t up_to,
                                      std::size_t limit) override;
  VerifyReport Verify() override;
  // While the database is away with what it counted last.
  LedgerStats Stats() override;
  LedgerStats OwnStats() override { return lane_.Stats(); }
  SharedLedgerCounts SharedCounts() override;
  GroupPast Past() const override { return lane_.past(); }
  void SetRule(const LedgerRule& rule) override;
  void OnCommit(std::function<void(double seconds, std::size_t rows)> observer) override;
  void OnTakeOver(std::function<void()> told) override;

 private:
  const PgLedgerOptions options_;
  // A row of RecordPolicy() that is not confirmed yet: whoever asks again waits for that one.
  struct Noting {
    std::string version;
    std::future<Result<void>> done;
  };
  std::mutex noting_mutex_;
  std::optional<Noting> noting_;  // guarded by noting_mutex_
  const Clock& clock_;
  std::atomic<std::size_t> beginning_{0};   // calls that wait to
  std::atomic<std::size_t> kept_bytes_{0};  // of answers that wait to be written
  PgLane lane_;
  std::mutex take_over_mutex_;
  std::function<void()> on_take_over_;  // guarded by take_over_mutex_
  bool took_untold_ = false;            // guarded by take_over_mutex_
  PgStreamWatch watch_;                 // ends before the lane
};

}  // namespace recourse
