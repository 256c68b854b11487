// Lets old rows leave the front of the log, and what must outlive them move on to its end, in one
// commit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "filters/ledger/engine/ledger_lookup.h"
#include "filters/ledger/engine/ledger_state.h"
#include "filters/ledger/engine/row_writer.h"
#include "filters/ledger/rules/retain.h"

namespace recourse {

// One thread at a time.
class Retirement {
 public:
  Retirement(LedgerState& state, LedgerLookup& lookup, RowWriter& rows)
      : state_(state), lookup_(lookup), rows_(rows) {}

  struct Done {
    std::size_t rows = 0;  // removed
    bool more = false;     // there is more to remove now
    bool is_late = false;  // what is left is older than the rule says by a quarter and more
  };
  // One step, in a commit of its own; the batch must be empty. What is older than the rule says
  // leaves the front of the log, at most kRetireRows rows at a time.
  Result<Done> Retire(const LedgerRule& rule);
  // How often to look when there is nothing more to remove.
  static Millis Every(const LedgerRule& rule);

  // At least so old is the oldest row, in lived time; and by how much it is older than the rule
  // that was applied last says.
  std::int64_t OldestRowMs() const;
  std::int64_t LagMs() const;
  // Rows that moved on as they are, because their key is missing.
  std::uint64_t locked_carried() const { return locked_carried_; }

 private:
  // What one step is going to do.
  struct Step {
    std::uint64_t through = 0;  // rows up to here may leave
    std::int64_t lived_ms = 0;
    std::int64_t tombstones_ms = 0;
    std::map<std::uint64_t, Digest> moved;
    RetiredRow row;
    LogBase base;  // grows with every row
  };

  // The rows that one step looks at; false when they cannot be read.
  bool ReadOldRows(std::uint64_t through, std::vector<std::string>& rows);
  Result<void> RetireRows(const std::vector<std::string>& rows, Step& step);
  void Finish(MonoTime now, bool is_marked, Step& step);
  // False: the row is left to the next step.
  Result<bool> RetireRow(const RowView& row, Step& step);
  Result<void> RetireEvent(const RowView& row, Step& step);
  Result<void> RetireAlias(const RowView& row, Step& step);
  Result<void> RetirePolicy(const RowView& row);
  Result<void> RetireFlow(const RowView& row);
  Result<bool> RetireTombstones(const RowView& row, Step& step);

  Result<void> Find(EventNeed need, const RowView& row, OldEvent& event);
  Result<PlaceOfKey> PlaceOf(const Digest& key);
  Result<Later> LaterOf(const Digest& key, std::uint32_t newest_generation);
  // Of a final row that leaves: its repeat would be made anew, so that nothing remembers its key.
  Result<bool> StandsNoMore(const EventFront& write, std::uint64_t row);
  void KeepFlowOf(const RowView& row, std::uint64_t operation);
  Result<void> CopyForward(const RowView& row, const EventFront& front);
  // What the plan leaves of the row.
  void Leave(RetainPlan plan, const RowView& row, Step& step);
  void EndOperation(const EventFront& front, Step& step);

  LedgerState& state_;
  LedgerLookup& lookup_;
  RowWriter& rows_;
  std::uint64_t locked_carried_ = 0;
  std::int64_t retention_ms_ = 0;  // of the rule applied last; 0: none was
};

}  // namespace recourse
