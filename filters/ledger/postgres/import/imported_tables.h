// What the rows of an embedded ledger, taken one after the other, make of the tables: as if they
// had been written there.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "filters/ledger/model/open_flows.h"
#include "filters/ledger/postgres/changes.h"
#include "filters/ledger/rows/event_log.h"
#include "filters/ledger/rows/row_codec.h"
#include "proxy/base/clock.h"

namespace recourse {

// One thread.
class ImportedTables {
 public:
  // Both outlive it. `first_row`: what came before was removed.
  ImportedTables(EventLog::Reader& rows, const Clock& clock, std::uint64_t first_row);
  ImportedTables(const ImportedTables&) = delete;
  ImportedTables& operator=(const ImportedTables&) = delete;

  // Each row in its order. Fails with a line for people.
  std::expected<LogColumns, std::string> Take(const RowView& row);
  // Behind the last one.
  void Finish();

  struct Flow {
    StoredFlow stored;  // `opened` is a row, not a place
    std::int64_t wall_ms = 0;
  };
  struct Intent {
    std::uint64_t row = 0;
    bool is_mark = false;  // the row of an effect, else an operation
  };
  using Work = std::pair<WorkKind, std::uint64_t>;  // what it is about

  const std::map<Uuid, StoredOperation>& operations() const { return operations_; }
  const std::map<Uuid, Intent>& intents() const { return intents_; }
  const std::map<Uuid, Flow>& flows() const { return flows_; }
  // Each with the key of the operation, or of the flow.
  const std::map<Work, Uuid>& work() const { return work_; }
  // Operations whose first row is not there, with their keys.
  const std::map<std::uint64_t, Uuid>& moved() const { return moved_; }
  std::size_t running() const;  // operations that were being sent
  std::uint64_t low() const;    // the first row that says so of one; 0: there is none
  std::uint64_t rows() const { return rows_taken_; }

 private:
  using Taken = std::expected<LogColumns, std::string>;

  Taken TakeEvent(const RowView& row);
  Taken TakeFlow(const RowView& row);
  Taken TakeAlias(const RowView& row);
  bool TakeAnswered(const RowView& row);
  bool TakeRetired(const RowView& row);
  Taken Write(RowWrite write, const RowView& row);
  Fetched Answer(const Wishes& wishes);
  void Apply(const Changes& changes, const Plan& plan, const RowView& row);
  static Uuid SubjectOf(const RowWrite& write, WorkKind kind);
  void CloseIdle(std::int64_t wall_ms);
  MonoTime AtOf(std::int64_t wall_ms) const;

  EventLog::Reader& reader_;
  const std::uint64_t first_row_;
  const MonoTime now_;
  const std::int64_t now_ms_;
  RowDecryptor opener_;
  OpenFlows open_flows_;  // says which ones are over without a row that says so
  std::map<Uuid, StoredOperation> operations_;
  std::map<std::uint64_t, Uuid> keys_of_;  // of operations
  std::map<Uuid, Intent> intents_;
  std::map<Uuid, Flow> flows_;
  std::map<Work, Uuid> work_;
  std::map<std::uint64_t, Uuid> moved_;
  std::uint64_t rows_taken_ = 0;
};

}  // namespace recourse
