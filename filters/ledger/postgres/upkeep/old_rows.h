// Which of the oldest rows of a stream may leave, and what becomes of the tables with them.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <string>
#include <vector>

#include "filters/ledger/postgres/facts.h"
#include "filters/ledger/rules/retain.h"

namespace recourse {

struct OldRow {
  std::uint64_t id = 0;
  std::string bytes;
};

// What leaves with the rows, as the tables had it: another version there is no match.
struct OldRows {
  std::size_t count = 0;  // so many of the rows, from the first one on
  Digest chain{};         // hash of the last one of them
  struct Ended {
    std::int64_t version = 0;
    bool is_forgotten = false;  // else a tombstone is left
    Phase phase = Phase::kNone;
  };
  std::map<Uuid, Ended> operations;
  std::map<Uuid, std::int64_t> flows;
  std::map<Uuid, std::uint64_t> intents;  // each with the operation, or the row, that it names
  std::vector<Uuid> links;                // between operations of one intent
};

class OldRowsJudge {
 public:
  struct Of {
    PgConnection& connection;
    const std::string& group;
    std::int64_t old_ms = 0;  // what has ended by then, in ms since 1970, is old
  };
  OldRowsJudge(Of of, LocalFacts& local) : of_(of), local_(local) {}

  // Of rows of one stream in their order. Fails with a line for people.
  std::expected<OldRows, std::string> Judge(const std::vector<OldRow>& rows);

 private:
  std::expected<void, std::string> Read(const std::vector<OldRow>& rows);
  std::expected<void, std::string> Fetch(const Wishes& wishes);
  // Whether it may leave.
  std::expected<bool, std::string> Take(const OldRow& row);
  std::expected<bool, std::string> TakeEvent(const OldRow& row, const RowView& view);
  std::expected<bool, std::string> End(const Digest& key, const StoredOperation& stored);
  bool TakeAlias(const OldRow& row, const RowView& view);
  bool TakeFlow(const OldRow& row, const RowView& view);
  std::expected<bool, std::string> StandsNoMore(const EventFront& write, std::uint64_t row);
  const StoredOperation* Operation(const Digest& key) const;

  const Of of_;
  LocalFacts& local_;
  Fetched known_;
  OldRows old_;
};

}  // namespace recourse
