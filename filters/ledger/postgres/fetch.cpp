// The statements that read. None of them scans: each begins with what was asked for.
#include <cstddef>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/read_rows.h"

namespace recourse {
namespace {

// An id is one number here and two columns there.
#define PG_STREAM(id) "(" id " >> 36)"
#define PG_NUMBER(id) "(" id " & 68719476735)"
#define PG_OPERATION                                                                            \
  "o.key, o.version, o.generation, o.newest_generation, o.flags, o.op_stream, o.op_number, "    \
  "o.phase, o.cause, o.attempt, o.sender, o.before_stream, o.before_number, o.wall_ms, o.flow," \
  "o.last_stream, o.last_number, e.place, e.bytes"
#define PG_LAST " LEFT JOIN event e ON e.stream = o.last_stream AND e.number = o.last_number"

constexpr PgStatement kByKey{
    "by_key", "SELECT " PG_OPERATION
              " FROM (SELECT *, $2::text AS grp FROM unnest($1::uuid[]) AS q(key)" PG_ONE_BY_ONE
              " JOIN operation o ON o.grp = p.grp AND o.key = p.key" PG_LAST};
constexpr PgStatement kByOperation{
    "by_operation", "SELECT " PG_OPERATION
                    ", q.id FROM unnest($1::bigint[]) AS q(id)"
                    " JOIN LATERAL " PG_KEY_OF(PG_STREAM("q.id"), PG_NUMBER("q.id"),
                                                  "$2::text") " AS k ON true"
                    " JOIN operation o ON o.grp = k.grp AND o.key = k.key" PG_LAST};
constexpr PgStatement kRowsById{
    "rows",
    "SELECT p.id, e.place, e.bytes FROM (SELECT id, " PG_STREAM("id") " AS stream, " PG_NUMBER(
        "id") " AS number FROM unnest($1::bigint[]) AS q(id)" PG_ONE_BY_ONE
              " JOIN event e ON e.stream = p.stream AND e.number = p.number"
              " AND " PG_IN_GROUP("e.grp", "$2::text")};
constexpr PgStatement kIntents{
    "intents",
    "SELECT i.intent, i.version, i.stream, i.number, i.place FROM (SELECT *, $2::text AS grp"
    " FROM unnest($1::uuid[]) AS q(intent)" PG_ONE_BY_ONE
    " JOIN intent i ON i.grp = p.grp AND i.intent = p.intent"};
constexpr PgStatement kFlows{
    "flows",
    "SELECT f.flow, version, flow_stream, flow_number, phase, cause, steps, has_deadline, opened,"
    " row_stream, row_number FROM (SELECT *, $2::text AS grp"
    " FROM unnest($1::uuid[]) AS q(flow)" PG_ONE_BY_ONE
    " JOIN flow f ON f.grp = p.grp AND f.flow = p.flow"};
constexpr PgStatement kStreamsByNumber{"streams_by_number",
                                       "SELECT stream, state = 1, beat, base FROM stream"
                                       " WHERE stream = ANY($1::bigint[]) AND grp = $2::text"};
// The events of an operation, and the moves of a flow, each name the one before.
constexpr PgStatement kHistories{
    "histories",
    "WITH RECURSIVE tip AS ("
    "  SELECT o.flow, o.last_stream AS stream, o.last_number AS number FROM operation o"
    "   WHERE o.flow = ANY($1::uuid[]) AND " PG_IN_GROUP("o.grp", "$2::text")
    "  UNION ALL SELECT f.flow, f.row_stream, f.row_number FROM (SELECT *, $2::text AS grp"
    " FROM unnest($1::uuid[]) AS q(flow)" PG_ONE_BY_ONE
    "   JOIN flow f ON f.grp = p.grp AND f.flow = p.flow AND f.row_number > 0),"
    " line AS ("
    "  SELECT t.flow, e.place, e.bytes, e.prev_stream, e.prev_number FROM tip t"
    "   JOIN event e ON e.stream = t.stream AND e.number = t.number"
    "  UNION ALL SELECT r.flow, e.place, e.bytes, e.prev_stream, e.prev_number FROM line r"
    "   JOIN event e ON e.stream = r.prev_stream AND e.number = r.prev_number"
    "   WHERE r.prev_number > 0)"
    " SELECT flow, place, bytes FROM line ORDER BY flow, place"};
// What runs stands behind its stream's low-water mark; what is unknown waits as work.
constexpr PgStatement kOpenWrites{
    "open_writes",
    "SELECT e.op_stream, e.op_number FROM stream s"
    " JOIN event e ON e.stream = s.stream AND e.number >= s.low AND e.number <= s.head"
    " WHERE s.grp = $1::text AND s.state < 3 AND s.open > 0 AND e.won AND e.phase = 5"
    " UNION SELECT w.stream, w.number FROM work w WHERE w.grp = $1::text AND w.kind = 1"};
constexpr PgStatement kClaims{
    "claims",
    "SELECT w.stream, w.number FROM work w WHERE w.grp = $1::text AND w.kind = 2"
    " ORDER BY w.stream, w.number"};

PgArguments UuidsOf(const std::set<Uuid>& uuids, const std::string& group) {
  PgArray array(PgArray::Of::kUuid);
  for (const Uuid& uuid : uuids) array.Uuid(DigestOfUuid(uuid));
  PgArguments arguments;
  array.AppendTo(arguments);
  arguments.Bytes(group);
  return arguments;
}

PgArguments IdsOf(const std::set<std::uint64_t>& ids, const std::string& group) {
  PgArray array(PgArray::Of::kInt);
  for (const std::uint64_t id : ids) array.Int(static_cast<std::int64_t>(id));
  PgArguments arguments;
  array.AppendTo(arguments);
  arguments.Bytes(group);
  return arguments;
}

std::uint64_t IdAt(const PgRows& rows, int row, int column) {
  return PackRowId({.stream = static_cast<std::uint32_t>(rows.Int(row, column)),
                    .number = rows.Number(row, column + 1)});
}

Uuid UuidAt(const PgRows& rows, int row, int column) { return AsUuid(rows.Uuid(row, column)); }

void TakeOperation(const PgRows& rows, int row, Fetched& fetched) {
  StoredOperation one;
  one.version = rows.Int(row, 1);
  one.generation = static_cast<std::uint32_t>(rows.Int(row, 2));
  one.newest_generation = static_cast<std::uint32_t>(rows.Int(row, 3));
  const std::int64_t flags = rows.Int(row, 4);
  one.is_answered = (flags & kPgAnswered) != 0;
  one.is_alias = (flags & kPgAlias) != 0;
  one.is_tombstone = (flags & kPgTombstone) != 0;
  one.is_placeholder = (flags & kPgPlaceholder) != 0;
  one.waiter = static_cast<std::uint64_t>(flags) >> kPgWaiterShift;
  one.operation = IdAt(rows, row, 5);
  one.phase = static_cast<Phase>(rows.Int(row, 7));
  one.cause = static_cast<Cause>(rows.Int(row, 8));
  one.attempt = static_cast<std::uint16_t>(rows.Int(row, 9));
  one.sender = rows.Number(row, 10);
  one.before = IdAt(rows, row, 11);
  one.wall_ms = rows.Int(row, 13);
  if (!rows.IsNull(row, 14)) one.flow = UuidAt(rows, row, 14);
  one.last_event = IdAt(rows, row, 15);
  if (!rows.IsNull(row, 18)) {
    fetched.rows[one.last_event] = {rows.Number(row, 17), std::string(rows.Bytes(row, 18))};
  }
  fetched.versions.operations[UuidAt(rows, row, 0)] = one;
}

void TakeFlowRow(const PgRows& rows, int row, Fetched& fetched) {
  StoredFlow flow;
  flow.version = rows.Int(row, 1);
  flow.number = IdAt(rows, row, 2);
  flow.phase = static_cast<FlowPhase>(rows.Int(row, 4));
  flow.cause = static_cast<FlowCause>(rows.Int(row, 5));
  flow.steps = rows.Int(row, 6);
  flow.has_deadline = rows.Int(row, 7) != 0;
  flow.opened = rows.Number(row, 8);
  flow.row = IdAt(rows, row, 9);
  fetched.versions.flows[UuidAt(rows, row, 0)] = flow;
}

// Each wish with its statement, in one order for the way out and the way back.
class Reading {
 public:
  Reading(PgConnection& connection, const Wishes& wishes, const std::string& group)
      : connection_(connection), wishes_(wishes), group_(group) {}

  std::expected<Fetched, PgFailure> Run() {
    Ask();
    auto answered = connection_.Run();
    if (!answered) return std::unexpected(std::move(answered.error()));
    Fetched fetched;
    std::size_t at = 0;
    for (const auto take : takes_) take(answered->at(at++), fetched);
    return fetched;
  }

 private:
  using Taking = void (*)(const PgRows& rows, Fetched& fetched);

  void Add(const PgStatement& statement, const PgArguments& arguments, Taking take) {
    connection_.Queue(statement, arguments);
    takes_.push_back(take);
  }

  void Ask() {
    // Before the marks: what ends in between is found by its own.
    if (wishes_.open_writes) {
      Add(kOpenWrites, PgArguments().Bytes(group_),
          [](const PgRows& rows, Fetched& fetched) { fetched.open = NumbersOf(rows); });
    }
    if (!wishes_.keys.empty()) Add(kByKey, UuidsOf(wishes_.keys, group_), TakeOperations);
    if (!wishes_.operations.empty())
      Add(kByOperation, IdsOf(wishes_.operations, group_), TakeByOperation);
    if (!wishes_.streams.empty())
      Add(kStreamsByNumber, IdsOf(wishes_.streams, group_), TakeStreams);
    if (!wishes_.rows.empty()) Add(kRowsById, IdsOf(wishes_.rows, group_), TakeRows);
    if (!wishes_.intents.empty()) Add(kIntents, UuidsOf(wishes_.intents, group_), TakeIntents);
    if (!wishes_.flows.empty()) Add(kFlows, UuidsOf(wishes_.flows, group_), TakeFlows);
    if (!wishes_.histories.empty())
      Add(kHistories, UuidsOf(wishes_.histories, group_), TakeHistories);
    if (wishes_.claims) {
      Add(kClaims, PgArguments().Bytes(group_),
          [](const PgRows& rows, Fetched& fetched) { fetched.claims = NumbersOf(rows); });
    }
  }

  static std::vector<std::uint64_t> NumbersOf(const PgRows& rows) {
    std::vector<std::uint64_t> numbers;
    for (int row = 0; row < rows.size(); ++row) numbers.push_back(IdAt(rows, row, 0));
    return numbers;
  }
  static void TakeOperations(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) TakeOperation(rows, row, fetched);
  }
  static void TakeByOperation(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) {
      TakeOperation(rows, row, fetched);
      fetched.keys_of[rows.Number(row, 19)] = UuidAt(rows, row, 0);
    }
  }
  static void TakeRows(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) {
      fetched.rows[rows.Number(row, 0)] = {rows.Number(row, 1), std::string(rows.Bytes(row, 2))};
    }
  }
  static void TakeStreams(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) {
      fetched.streams[rows.Number(row, 0)] = {rows.Int(row, 1) != 0, rows.Number(row, 2),
                                              rows.Number(row, 3)};
    }
  }
  static void TakeIntents(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) {
      fetched.versions.intents[UuidAt(rows, row, 0)] = {rows.Int(row, 1), IdAt(rows, row, 2),
                                                        rows.Number(row, 4)};
    }
  }
  static void TakeFlows(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) TakeFlowRow(rows, row, fetched);
  }
  static void TakeHistories(const PgRows& rows, Fetched& fetched) {
    for (int row = 0; row < rows.size(); ++row) {
      fetched.histories[UuidAt(rows, row, 0)].push_back(
          {rows.Number(row, 1), std::string(rows.Bytes(row, 2))});
    }
  }

  PgConnection& connection_;
  const Wishes& wishes_;
  const std::string& group_;
  std::vector<Taking> takes_;
};

}  // namespace

std::expected<Fetched, PgFailure> Fetch(PgConnection& connection, const Wishes& wishes,
                                        const std::string& group) {
  return Reading(connection, wishes, group).Run();
}

}  // namespace recourse
