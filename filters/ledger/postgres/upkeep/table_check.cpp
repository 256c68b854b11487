#include "filters/ledger/postgres/upkeep/table_check.h"

#include <fmt/format.h>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/model/standing.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/upkeep/flow_check.h"
#include "filters/ledger/rows/earlier_no.h"
#include "filters/ledger/rules/key_entry.h"

namespace recourse {
namespace {

constexpr PgStatement kRowsWithoutStream{
    "rows_without_stream",
    "SELECT e.stream FROM (SELECT DISTINCT stream FROM event) AS e"
    " WHERE NOT EXISTS (SELECT 1 FROM stream s WHERE s.stream = e.stream) LIMIT 1"};
// Streams are never removed, so that whatever names one proves it.
constexpr PgStatement kNamedStreams{
    "named_streams",
    "SELECT r.stream, r.what FROM ("
    "SELECT unnest(ARRAY[op_stream, last_stream, before_stream, sender]) AS stream,"
    " 'an operation is' AS what FROM operation"
    " UNION ALL SELECT stream, 'an intent is' FROM intent"
    " UNION ALL SELECT unnest(ARRAY[flow_stream, row_stream]), 'a flow is' FROM flow"
    " UNION ALL SELECT unnest(ARRAY[stream, owner]), 'work is' FROM work WHERE kind <> 4"
    " UNION ALL SELECT stream, 'an operation is' FROM moved"
    " UNION ALL SELECT taken_by, 'another one was taken over by' FROM stream"
    " UNION ALL SELECT unnest(ARRAY[op_stream, prev_stream]), 'rows of others are' FROM event"
    ") AS r WHERE r.stream > 0"
    " AND NOT EXISTS (SELECT 1 FROM stream s WHERE s.stream = r.stream) LIMIT 1"};
// To whom rows of some groups are hidden every stream of those would be one.
constexpr PgStatement kStreamGaps{
    "stream_gaps",
    "SELECT n.stream FROM (SELECT 1::bigint AS stream UNION ALL SELECT stream + 1 FROM stream) AS n"
    " WHERE n.stream <= (SELECT last_value FROM stream_number WHERE is_called)"
    " AND NOT EXISTS (SELECT 1 FROM stream s WHERE s.stream = n.stream)"
    " AND (NOT row_security_active('stream') OR EXISTS (SELECT 1 FROM pg_policies"
    " WHERE schemaname = current_schema() AND tablename = 'stream' AND policyname = current_user"
    " AND qual = 'true')) ORDER BY 1 LIMIT 16"};
// Flags: neither another one's name, nor a tombstone, nor a placeholder.
constexpr PgStatement kLostOperations{
    "lost_operations",
    "SELECT o.op_stream, o.op_number, o.last_stream, o.last_number FROM operation o"
    " LEFT JOIN event e ON e.stream = o.last_stream AND e.number = o.last_number"
    " WHERE o.flags & 14 = 0 AND (e.key IS DISTINCT FROM o.key OR e.phase <> o.phase"
    " OR e.op_stream <> o.op_stream OR e.op_number <> o.op_number) LIMIT 1"};
// What was imported may have met a key that was there.
constexpr PgStatement kUnlistedOperations{
    "unlisted_operations",
    "WITH kept AS (SELECT g.grp, (" PG_KEPT
    "g.grp) AS place FROM (SELECT DISTINCT grp FROM stream) AS g)"
    " SELECT e.op_stream, e.op_number, e.stream, e.number, o.key IS NULL OR o.flags & 12 <> 0"
    " FROM event e JOIN stream s ON s.stream = e.stream JOIN kept k ON k.grp = e.grp"
    " JOIN event f ON f.stream = e.op_stream AND f.number = e.op_number"
    " LEFT JOIN operation o ON o.grp = e.grp AND o.key = e.key"
    " LEFT JOIN event l ON l.stream = o.last_stream AND l.number = o.last_number"
    " WHERE e.key IS NOT NULL AND f.place > coalesce(k.place, 0) AND (o.key IS NULL"
    " OR s.source = ''::bytea AND (o.flags & 12 <> 0 OR o.flags & 14 = 0 AND l.place < e.place))"
    " ORDER BY e.place LIMIT 1"};
constexpr PgStatement kLostIntents{
    "lost_intents",
    "SELECT i.stream, i.number FROM intent i JOIN stream s ON s.stream = i.stream"
    " LEFT JOIN event e ON e.stream = i.stream AND e.number = i.number"
    " LEFT JOIN moved m ON m.stream = i.stream AND m.number = i.number"
    " WHERE i.number > s.base AND e.number IS NULL AND m.number IS NULL LIMIT 1"};
// A mark names a row with an effect, everything else the first row of an operation.
constexpr PgStatement kWrongIntents{
    "wrong_intents",
    "SELECT i.stream, i.number FROM intent i JOIN event e ON e.stream = i.stream"
    " AND e.number = i.number WHERE e.grp <> i.grp OR e.kind <> 1"
    " OR i.place <> e.place AND e.phase IN (7, 8)"
    " OR i.place = 0 AND (e.op_stream <> i.stream OR e.op_number <> i.number) LIMIT 1"};
constexpr PgStatement kMissingIntents{
    "missing_intents",
    "SELECT p.row FROM (SELECT *, $5::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[])"
    " AS q(intent, row, place, least)" PG_ONE_BY_ONE
    " LEFT JOIN intent i ON i.grp = p.grp AND i.intent = p.intent WHERE p.place > "
    "coalesce((" PG_KEPT
    "$5::text), 0)"
    " AND (i.intent IS NULL OR i.place < p.least) ORDER BY p.place LIMIT 1"};

// Of calls that are led to from another one of the intent; that stands in clear in each of a call's
// rows, but a policy may give a later attempt another one.
constexpr PgStatement kStrangeIntents{
    "strange_intents",
    "SELECT p.row FROM (SELECT *, $5::text AS grp"
    " FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bigint[])"
    " AS q(name, intent, row, operation)" PG_ONE_BY_ONE
    " JOIN intent i ON i.grp = p.grp AND i.intent = p.name"
    " JOIN event e ON e.stream = i.stream AND e.number = i.number"
    " WHERE (i.stream <> p.operation >> 36 OR i.number <> p.operation & 68719476735)"
    " AND substring(e.bytes FROM 122 FOR 32) <> p.intent"
    " AND NOT EXISTS (WITH RECURSIVE line AS ("
    "  SELECT l.bytes, l.prev_stream, l.prev_number FROM operation o JOIN event l"
    "   ON l.stream = o.last_stream AND l.number = o.last_number WHERE o.grp = e.grp"
    "   AND o.key = e.key"
    "  UNION ALL SELECT l.bytes, l.prev_stream, l.prev_number FROM line n JOIN event l"
    "   ON l.stream = n.prev_stream AND l.number = n.prev_number WHERE n.prev_number > 0)"
    "  SELECT 1 FROM line WHERE substring(bytes FROM 122 FOR 32) = p.intent)"
    " ORDER BY p.row LIMIT 1"};

// What each says of the first row that it finds.
struct TableCheck {
  const PgStatement& statement;
  std::string (*says)(const PgRows& found);
};
constexpr TableCheck kChecks[] = {
    {kRowsWithoutStream,
     [](const PgRows& found) {
       return fmt::format("stream {}: its rows are there, and it is not listed", found.Int(0, 0));
     }},
    {kNamedStreams,
     [](const PgRows& found) {
       return fmt::format("stream {}: {} of it, and it is not listed", found.Int(0, 0),
                          found.Bytes(0, 1));
     }},
    {kLostOperations,
     [](const PgRows& found) {
       return fmt::format("operation {}: its last row {} is not there, or says something else",
                          RowIdIn(found, 0), RowIdIn(found, 2));
     }},
    {kUnlistedOperations,
     [](const PgRows& found) {
       if (found.Int(0, 4) == 0) {
         return fmt::format("operation {}: the table `operation` does not know of its row {}",
                            RowIdIn(found, 0), RowIdIn(found, 2));
       }
       return fmt::format(
           "operation {}, which row {} tells of: the table `operation` does not"
           " have it",
           RowIdIn(found, 0), RowIdIn(found, 2));
     }},
    {kLostIntents,
     [](const PgRows& found) {
       return fmt::format("row {}, which the table `intent` names, is not there",
                          RowIdIn(found, 0));
     }},
    {kWrongIntents,
     [](const PgRows& found) {
       return fmt::format("row {} is not what the table `intent` names it for", RowIdIn(found, 0));
     }},
};

bool StandsFor(Phase phase) { return IsOpen(phase) || MayHaveEffect(phase); }

}  // namespace

std::expected<std::string, std::string> CheckPgTables(PgReader& reader) {
  for (const TableCheck& check : kChecks) {
    const auto found = reader.Ask(check.statement, PgArguments());
    if (!found) return std::unexpected(found.error());
    if (found->front().size() > 0) return check.says(found->front());
  }
  return CheckPgFlowsAndWork(reader);
}

std::expected<std::vector<std::uint64_t>, std::string> PgStreamGaps(PgReader& reader) {
  const auto found = reader.Ask(kStreamGaps, PgArguments());
  if (!found) return std::unexpected(found.error());
  std::vector<std::uint64_t> gaps;
  for (int at = 0; at < found->front().size(); ++at) gaps.push_back(found->front().Number(at, 0));
  return gaps;
}

void IntentCheck::Want(const Seen& seen, const Digest& intent, bool is_mark) {
  wanted_.push_back({intent, seen.row, seen.place, is_mark});
}

// As ChangesOf writes it. What had no effect has given its intent back.
void IntentCheck::Add(const Seen& seen, const EventFront& front, const RowView& row) {
  if (front.phase == Phase::kDispatching || front.phase == Phase::kClaimed) {
    if (front.intent == Digest{}) return;
    const Digest intent = KeyOfIntent(front.intent, front.principal);
    for (const Digest& name : {intent, KeyOfBefore(intent, front.operation)}) {
      named_.push_back({name, front.intent, seen.row, front.operation});
    }
    if (StandsFor(seen.operation)) Want(seen, intent, false);
    return;
  }
  if (front.phase == Phase::kDenied) {
    const ToolAndCaller made = MadeBy(row);
    Want(seen, KeyOfNo(made.caller, made.tool), false);
    return Want(seen, KeyOfNo(made.caller, made.tool, front.args_hash), false);
  }
  const bool is_new = seen.is_first || (seen.before != Phase::kNone && !IsExecuted(seen.before));
  if (front.stands.kind == WriteKind::kNone || !IsExecuted(front.phase) || !is_new) return;
  for (const Mark& mark : LeftBy(front.stands, front.resource)) Want(seen, AsDigest(mark), true);
}

std::expected<IntentCheck::Wrong, std::string> IntentCheck::Check() {
  const auto missing = CheckMissing();
  const auto strange = CheckNamed();
  wanted_.clear();
  named_.clear();
  if (!missing) return std::unexpected(missing.error());
  if (!strange) return std::unexpected(strange.error());
  return *missing != 0 ? Wrong{*missing, true} : Wrong{*strange, false};
}

std::expected<std::uint64_t, std::string> IntentCheck::CheckNamed() {
  if (named_.empty()) return 0;
  PgArray names(PgArray::Of::kUuid), intents(PgArray::Of::kBytes), rows(PgArray::Of::kInt),
      operations(PgArray::Of::kInt);
  for (const Named& named : named_) {
    names.Uuid(named.name);
    intents.Bytes(AsView(named.intent));
    rows.Int(AsInt(named.row));
    operations.Int(AsInt(named.operation));
  }
  PgArguments arguments;
  for (const PgArray* const array : {&names, &intents, &rows, &operations}) {
    array->AppendTo(arguments);
  }
  const auto found = reader_.Ask(kStrangeIntents, arguments.Bytes(group_));
  if (!found) return std::unexpected(found.error());
  return found->front().size() == 0 ? 0 : found->front().Number(0, 0);
}

std::expected<std::uint64_t, std::string> IntentCheck::CheckMissing() {
  if (wanted_.empty()) return 0;
  PgArray intents(PgArray::Of::kUuid), rows(PgArray::Of::kInt), places(PgArray::Of::kInt),
      least(PgArray::Of::kInt);
  for (const Wanted& wanted : wanted_) {
    intents.Uuid(wanted.intent);
    rows.Int(AsInt(wanted.row));
    places.Int(wanted.place);
    least.Int(wanted.is_mark ? wanted.place : 0);
  }
  PgArguments arguments;
  for (const PgArray* const array : {&intents, &rows, &places, &least}) array->AppendTo(arguments);
  const auto found = reader_.Ask(kMissingIntents, arguments.Bytes(group_));
  if (!found) return std::unexpected(found.error());
  return found->front().size() == 0 ? 0 : found->front().Number(0, 0);
}

}  // namespace recourse
