// Rows of the database's tables, as values, and what a batch makes of them.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "filters/ledger/model/event.h"
#include "filters/ledger/model/flow.h"
#include "filters/ledger/rules/key_entry.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// The first 16 bytes of a digest: the order of these is that in which rows are locked.
using Uuid = std::array<unsigned char, 16>;
inline Uuid AsUuid(const Digest& digest) {
  Uuid uuid;
  std::memcpy(uuid.data(), digest.data(), uuid.size());
  return uuid;
}
inline Digest DigestOfUuid(const Uuid& uuid) {
  Digest digest{};
  std::memcpy(digest.data(), uuid.data(), uuid.size());
  return digest;
}

// Flags of a row of `operation`.
inline constexpr int kPgAnswered = 1, kPgAlias = 2, kPgTombstone = 4, kPgPlaceholder = 8;
// Above them: a stream.
inline constexpr int kPgWaiterShift = 4;

// `version` of each is raised by whoever changes it, and 0 where there is no such row: what a
// decision has read is what it stands on.
struct StoredOperation {
  std::int64_t version = 0;
  std::uint32_t generation = 0, newest_generation = 0;
  bool is_answered = false, is_alias = false, is_tombstone = false;
  bool is_placeholder =
      false;  // stands for generation 0 of a key of which only later ones are left
  std::uint64_t operation = 0, last_event = 0;
  Phase phase = Phase::kNone;
  Cause cause = Cause::kNone;
  std::uint16_t attempt = 0;
  std::uint64_t sender = 0;  // the stream that sends it
  std::uint64_t waiter =
      0;  // the stream whose client waits for it, as far as that has told; 0: none
  std::uint64_t before = 0;  // the operation that stood for its intent
  std::int64_t wall_ms = 0;  // of its last event
  std::optional<Uuid> flow{};
};
inline int PgFlagsOf(const StoredOperation& row) {
  return (row.is_answered ? kPgAnswered : 0) | (row.is_alias ? kPgAlias : 0) |
         (row.is_tombstone ? kPgTombstone : 0) | (row.is_placeholder ? kPgPlaceholder : 0) |
         (static_cast<int>(row.waiter) << kPgWaiterShift);
}
struct StoredIntent {
  std::int64_t version = 0;
  std::uint64_t row = 0;    // an operation; of a mark: the row of the last effect
  std::uint64_t place = 0;  // of that row
};
struct StoredFlow {
  std::int64_t version = 0;  // raised by moves, not by steps
  std::uint64_t number = 0;
  FlowPhase phase = FlowPhase::kNone;
  FlowCause cause = FlowCause::kNone;
  std::int64_t steps = 0;
  bool has_deadline = false;
  std::uint64_t opened = 0;  // place of its first step
  std::uint64_t row = 0;     // of its last move; 0: only its steps tell of it
};
struct StoredRow {
  std::uint64_t place = 0;  // 0: it is not there
  std::string bytes;
};

// That all rows of a group have its name is kept from the planner: while a table is small, or the
// database has not counted its rows, it would read the whole group by the front of its key, and go
// on so as the table grows. Ends "(SELECT *, GROUP AS grp FROM KEYS": keys that are looked up.
#define PG_ONE_BY_ONE " OFFSET 0) AS p"
// Of what another index finds: those of that group. What is looked up is computed in such a list,
// too: where rows of other groups are hidden, a condition that computes it reads the whole table.
#define PG_IN_GROUP(grp, group_is) grp " || '' = " group_is

// Of the operation that has this name its key and group: as its first row says, or, where that is
// not there, what has moved; of that group alone. For a LATERAL join.
#define PG_KEY_OF(stream_is, number_is, group_is)                                              \
  "(SELECT f.key, f.grp FROM event f WHERE f.stream = " stream_is " AND f.number = " number_is \
  " AND f.grp = " group_is                                                                     \
  " UNION ALL SELECT m.key, m.grp FROM moved m WHERE m.stream = " stream_is                    \
  " AND m.number = " number_is " AND m.grp = " group_is " LIMIT 1)"

// How far retention has come in a group. What is over leaves the tables with its first row to go,
// so that whatever began behind this is whole. The keeper of an earlier version does not tell: then
// it is the first row that it has kept of the stream.
#define PG_KEPT                                                                              \
  "SELECT max(coalesce(w.number, r.place)) FROM stream k LEFT JOIN work w ON w.grp = k.grp"  \
  " AND w.kind = 4 AND w.stream = k.stream AND w.stream > 0 AND w.policy = k.base::text"     \
  " LEFT JOIN event r ON w.number IS NULL AND r.stream = k.stream AND r.number = k.base + 1" \
  " WHERE k.base > 0 AND k.grp = "

// Everything that some decisions have read of tables that change.
struct Versions {
  std::map<Uuid, StoredOperation> operations;
  std::map<Uuid, StoredIntent> intents;
  std::map<Uuid, StoredFlow> flows;
};

}  // namespace recourse
