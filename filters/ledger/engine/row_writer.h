// Writes the rows of a batch, and lets each change what the ledger knows.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "filters/ledger/engine/ledger_lookup.h"
#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/plan.h"

namespace recourse {

// One thread at a time. What fails has written nothing.
class RowWriter {
 public:
  RowWriter(LedgerState& state, LedgerLookup& lookup) : state_(state), lookup_(lookup) {}

  // Fails only where nothing is written yet.
  Result<void> CarryOut(Plan& plan);
  // Completes what the row says of its standing before it is written.
  Result<void> AppendStanding(Event& event, const KeyEntry* previous);
  void AppendAlias(const Alias& alias);
  // With what it means to the flow's other rows.
  Result<void> AppendFlow(const FlowState& state);
  Result<void> AppendPolicy(const PolicyChange& change);
  Result<void> AppendOrder(const OperatorOrder& order);
  void AppendRetired(const RetiredRow& retired);
  // As it is: its key is missing, so that it cannot be written anew. False: it cannot be read.
  bool AppendLocked(const RowView& row, const EventFront& front, std::string_view caller,
                    const KeyEntry& previous);
  void AppendEpoch();

  void MarkAnswered(AttemptId answered);
  void MarkUnread(AttemptId answered);
  bool has_marks() const { return !marks_.empty(); }
  // Claims that the batch ended beside what its verbs were about.
  std::vector<std::uint64_t> TakeEndedClaims() { return std::exchange(ended_claims_, {}); }

  // Makes the batch durable, with the marks that wait. Fails with kLedgerUnavailable, for good.
  Result<void> Commit();

 private:
  Result<void> Append(EventWrite& write);
  Result<void> Append(FlowWrite& write);
  Result<void> Append(const AliasWrite& write);
  Result<void> AppendEvent(Event& event, const KeyEntry* previous);
  void AppendMarks();
  void Apply(Event& event, const KeyEntry* previous);

  LedgerState& state_;
  LedgerLookup& lookup_;
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint64_t> ended_claims_;
};

}  // namespace recourse
