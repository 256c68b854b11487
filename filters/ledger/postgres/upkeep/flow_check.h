// What the tables `flow` and `work` of a ledger in PostgreSQL say, compared with its log.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/model/flow.h"
#include "filters/ledger/postgres/pg_values.h"
#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {

// Of the first row: stream and number at `column` and behind it, as people read them.
std::string RowIdIn(const PgRows& rows, int column);

// What no stream alone can tell: that the rows which a flow names are there, that what waits is
// listed as work, and that nothing else is. As CheckPgTables.
std::expected<std::string, std::string> CheckPgFlowsAndWork(PgReader& reader);

// What rows of one group's log say that these tables must have.
class WaitingCheck {
 public:
  WaitingCheck(PgReader& reader, std::string group) : reader_(reader), group_(std::move(group)) {}

  // `place`: of the row. A flow that has moved on since is none of it.
  void Add(std::uint64_t row, std::int64_t place, const FlowState& moved);
  // The last row of its operation.
  void Add(std::uint64_t row, const EventFront& last);

  struct Missing {
    std::uint64_t row = 0;  // 0: nothing is missing
    std::string_view table{};
  };
  // The first of those rows that a table does not know of. Forgets them.
  std::expected<Missing, std::string> Check();

 private:
  struct Moved {
    Digest flow{};
    std::uint64_t row = 0;
    std::int64_t place = 0;
    FlowState state;
  };
  struct Waits {
    Digest key{};
    std::uint64_t row = 0;
    Phase phase = Phase::kNone;
  };
  std::expected<std::uint64_t, std::string> CheckFlows() const;
  std::expected<std::uint64_t, std::string> CheckWork() const;

  PgReader& reader_;
  const std::string group_;
  std::vector<Moved> moved_;
  std::vector<Waits> waits_;
};

}  // namespace recourse
