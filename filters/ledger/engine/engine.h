// The ledger without threads: decides by the rules, builds the rows of one batch and their hash
// chain, and knows what they say. The ledgers around it decide when a batch is committed.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "filters/ledger/engine/index_checkpoints.h"
#include "filters/ledger/engine/ledger_lookup.h"
#include "filters/ledger/engine/ledger_parts.h"
#include "filters/ledger/engine/ledger_replay.h"
#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/engine/retirement.h"
#include "filters/ledger/engine/row_writer.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/operation_queries.h"
#include "filters/ledger/rules/begin_plan.h"
#include "proxy/base/limits.h"

namespace recourse {

// One thread at a time. After a failed Commit nothing is written any more; what was committed can
// still be read.
class Engine {
 public:
  Engine(LedgerParts parts, const Clock& clock);

  // Of the start (recovery.cpp).
  LedgerReplay replay() { return LedgerReplay(state_, rows_); }

  // The plan that was carried out; kFresh: its reply is whole, but for `commit`. Takes what it
  // needs out of `call`, unless it asks for load_after_commit. An error with Delivery::kUncertain:
  // there is, or may be, such an operation, and it may have had its effect.
  Result<BeginPlan> Begin(NewOperation& call);
  Result<Event> Record(Transition& transition);
  void MarkAnswered(AttemptId answered);
  void MarkUnread(AttemptId answered);
  Result<void> RecordPolicy(const PolicyChange& change);
  Result<void> RecordOrder(const OperatorOrder& order);
  Result<FlowState> MoveFlow(const FlowMove& move);
  Result<ApprovalOutcome> Decide(const ApprovalOrder& order);
  // What is committed; skips what is not.
  Result<std::vector<PendingApproval>> Claims(std::uint64_t after, std::size_t limit);
  // Claims that the batch ended beside what its verbs were about.
  std::vector<std::uint64_t> TakeEndedClaims() { return rows_.TakeEndedClaims(); }
  const OpenFlows& flows() const { return state_.flows; }

  // The batch.
  std::size_t batch_rows() const { return state_.log.batch().size(); }
  // What comes next must wait for another batch. A latched ledger has no other: its batch stays as
  // it is, and takes no more rows.
  bool is_batch_full() const;
  bool has_marks() const { return rows_.has_marks(); }
  // Makes the batch durable, with the marks that wait. Fails with kLedgerUnavailable, for good.
  Result<void> Commit() { return rows_.Commit(); }

  // One step of retention, in a commit of its own; the batch must be empty.
  using Retired = Retirement::Done;
  Result<Retired> Retire(const LedgerRule& rule) { return retirement_.Retire(rule); }

  // A committed event, with its answer.
  Result<Event> Load(std::uint64_t row) { return state_.log.Load(row); }
  // The operation's state row and phase; kInternal: no such operation.
  struct State {
    std::uint64_t last_event = 0;
    Phase phase = Phase::kNone;
  };
  Result<State> StateOf(std::uint64_t operation);
  Result<std::vector<Event>> Open(std::uint64_t after, std::size_t limit);
  // For each row: whether its operation has no newer one that is committed.
  Result<std::vector<bool>> AreNewest(const std::vector<OperationRow>& rows);

  // New operations are refused while what came after a restored backup is not known to be nothing.
  // Both thread-safe.
  bool is_restored() const { return state_.restored.waits(); }
  std::expected<void, std::string> AcceptRestoredBackup() { return state_.restored.Accept(); }

  bool is_latched() const { return state_.log.is_latched(); }
  const LogHead& head() const { return state_.log.head(); }
  LedgerStats Stats();

  IndexCheckpoints& index() { return index_; }
  EventLog& log() { return *state_.parts.log; }
  const std::shared_ptr<const LedgerKeys>& keys() const { return state_.parts.keys; }

 private:
  LedgerState state_;
  LedgerLookup lookup_;
  RowWriter rows_;
  Retirement retirement_;
  IndexCheckpoints index_;
};

}  // namespace recourse
