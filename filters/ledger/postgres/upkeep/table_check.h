// What the tables of a ledger in PostgreSQL say beside the log, compared with what its rows say.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "filters/ledger/model/event.h"
#include "filters/ledger/postgres/reader.h"
#include "filters/ledger/postgres/stored.h"
#include "filters/ledger/rows/row_codec.h"

namespace recourse {

// What no stream alone can tell: that none is missing of which something is there, that each
// operation of the log is listed, and is where its last row says. A line for people about the first
// that is not so; empty: all is. Fails with one where it could not be asked.
std::expected<std::string, std::string> CheckPgTables(PgReader& reader);

// Numbers that were given to streams of which nothing is left, or that never began; a few of them.
// Who sees some groups alone is told of none.
std::expected<std::vector<std::uint64_t>, std::string> PgStreamGaps(PgReader& reader);

// What rows of one group's log say that `intent` must have, and that what it has of theirs leads to
// calls of the same intent. Some of what retention has not removed yet may be gone from there, as
// what it belonged to is over.
class IntentCheck {
 public:
  IntentCheck(PgReader& reader, std::string group) : reader_(reader), group_(std::move(group)) {}

  struct Seen {
    std::uint64_t row = 0;
    std::int64_t place = 0;
    Phase operation = Phase::kNone;  // what its operation is now; kNone: retention has it
    Phase before = Phase::kNone;     // what it was before this row
    bool is_first = false;           // no row of it came before
  };
  void Add(const Seen& seen, const EventFront& front, const RowView& row);
  struct Wrong {
    std::uint64_t row = 0;  // 0: nothing is wrong
    bool is_missing = false;
  };
  // The first of those rows of which something is missing, or leads elsewhere. Forgets them.
  std::expected<Wrong, std::string> Check();

 private:
  void Want(const Seen& seen, const Digest& intent, bool is_mark);
  std::expected<std::uint64_t, std::string> CheckMissing();
  std::expected<std::uint64_t, std::string> CheckNamed();

  struct Wanted {
    Digest intent{};
    std::uint64_t row = 0;
    std::int64_t place = 0;
    bool is_mark = false;
  };
  // What may be listed under `name` is another call of `intent`.
  struct Named {
    Digest name{}, intent{};
    std::uint64_t row = 0, operation = 0;
  };
  PgReader& reader_;
  const std::string group_;
  std::vector<Wanted> wanted_;
  std::vector<Named> named_;
};

}  // namespace recourse
