// The tables of a ledger in PostgreSQL. Expand, roll, contract: a later version only adds, until no
// stream is left of a version that needs what it takes away.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "filters/ledger/lease/stream_end.h"
#include "filters/ledger/lease/watch.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// Raised with whatever a statement of ours needs, a column too. Those of the oldest version that
// may write are what an older recourse goes on with meanwhile.
inline constexpr int kPgSchemaVersion = 6, kPgOldestWriter = 4;

// Stored as numbers: never renumber.
enum class StreamState : std::uint8_t {
  kLive = 1,
  kFenced = 2,  // declared dead: what it has open is being taken over
  kEnded = 3,   // nothing is left of it
  kComing = 4,  // is being imported: nobody takes it over, or lets its rows leave
};
// That of the ledger which was imported: its rows keep their numbers.
inline constexpr std::uint64_t kPgImportedStream = 0;
std::string_view NameOf(StreamState state);
// The same for people: a live one is `silent` once no sign of life has come for longer than three
// are due.
inline constexpr std::int64_t kSignOfLifeS = 60;
std::string_view ShownState(StreamState state, std::int64_t silent_s);
enum class WorkKind : std::uint8_t {
  kSettle = 1,    // an unknown outcome; named by its operation
  kApproval = 2,  // waits for a human, or was approved; likewise
  kFlow = 3,      // has a deadline, or is being undone, or parked; named by its flow's number
  kKeeper = 4,    // whose turn it is to run retention
};

// Which ledger a schema holds.
struct PgLedgerFacts {
  Digest identity{};
  int schema_version = 0;
  int min_writer = 0;        // the oldest version of the schema that may still write
  std::string install_id;    // empty: nobody has written yet
  bool is_restored = false;  // it was put back to an older state, and nobody has accepted that
};

// Creates what is missing, in one transaction. The role needs the right to create tables in the
// first schema of its search path; those who write need none of that.
std::expected<void, Unopened> MigratePgSchema(PgConnection& connection);

// Fails where there is no ledger, or none that this version may write.
std::expected<PgLedgerFacts, Unopened> ReadPgLedgerFacts(PgConnection& connection,
                                                         const PgPurpose& purpose = {});

struct PgAccepted {
  bool was_restored = false;  // else there was nothing to accept
  bool is_all = false;        // nobody is left who has not accepted it
};
// Somebody has found out what that group did since the state that the database was put back to: its
// calls are begun again. `group` empty: of all groups.
std::expected<PgAccepted, Unopened> AcceptPgRestored(PgConnection& connection,
                                                     std::string_view group, std::string_view why);

// When the group accepted last that the ledger was restored, by the database's clock; 0: never.
std::expected<std::int64_t, PgFailure> ReadPgAcceptedMs(PgConnection& connection,
                                                        std::string_view group);

// The last row `id` of a stream, and its hash.
inline StreamEnd StreamEndOf(std::uint64_t id, const Digest& chain) {
  return {UnpackRowId(id).number, chain};
}
StreamEnd StreamEndIn(const PgRows& rows, int number_column, int chain_column);

// What a process was told last that its stream ends with.
struct OwnEnd {
  std::uint64_t head = 0;   // id of the row
  std::uint64_t place = 0;  // of a row before it
  const Digest& chain;
  const std::string& group;
};

// The ledger is marked as restored: no stream begins anything until the restore is accepted, and
// what that process has seen of numbers is not given again. False: it is away.
bool TellPgWentBack(PgConnection& connection, const OwnEnd& own);

// Of another process's stream, which had that beat; nothing is done where it has it again.
std::expected<void, PgFailure> TellPgWentBack(PgConnection& connection, std::string_view group,
                                              Watch::Silent seen);

}  // namespace recourse
