#include "filters/ledger/postgres/batch_sql.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/store.h"

namespace recourse {
namespace {

// An id is one number here and two columns there.
#define PG_ID(id) id " >> 36, " id " & 68719476735"

constexpr PgStatement kBegin{"begin", "BEGIN"};
// No row: it is not this process's stream any more, or something else has been written to it.
constexpr PgStatement kFence{
    "fence",
    "UPDATE stream SET beat = beat + 1, place = nextval('place') << 12, at = greatest(at, now())"
    " WHERE stream = $1::bigint AND state = 1 AND head = $2::bigint AND chain = $3::bytea"
    " AND beat = $4::bigint RETURNING place, held"};
constexpr PgStatement kLockOperations{
    "lock_operations",
    "SELECT o.key, o.version FROM (SELECT *, $2::text AS grp"
    " FROM unnest($1::uuid[]) AS q(key)" PG_ONE_BY_ONE
    " JOIN operation o ON o.grp = p.grp AND o.key = p.key ORDER BY o.key FOR UPDATE OF o"};
constexpr PgStatement kLockIntents{
    "lock_intents",
    "SELECT i.intent, i.version FROM (SELECT *, $2::text AS grp"
    " FROM unnest($1::uuid[]) AS q(intent)" PG_ONE_BY_ONE
    " JOIN intent i ON i.grp = p.grp AND i.intent = p.intent ORDER BY i.intent FOR UPDATE OF i"};
constexpr PgStatement kLockFlows{
    "lock_flows",
    "SELECT f.flow, f.version, f.steps FROM (SELECT *, $2::text AS grp"
    " FROM unnest($1::uuid[]) AS q(flow)" PG_ONE_BY_ONE
    " JOIN flow f ON f.grp = p.grp AND f.flow = p.flow ORDER BY f.flow FOR UPDATE OF f"};

// The same of a batch that is sent whole: where something else is found, a division by zero ends
// it.
constexpr PgStatement kFenceAndHead{
    "fence_and_head",
    "WITH f AS (UPDATE stream SET beat = beat + 1, place = nextval('place') << 12, head = "
    "$3::bigint,"
    " chain = $4::bytea, low = $5::bigint, open = $6::bigint, at = greatest(at, now())"
    " WHERE stream = $1::bigint AND state = 1 AND head = $2::bigint AND chain = $8::bytea"
    " AND beat = $9::bigint AND NOT (held AND $7::boolean) RETURNING place)"
    " SELECT 1 / count(*), max(place) FROM f"};
constexpr PgStatement kHoldOperations{
    "hold_operations",
    "SELECT 1 / (count(*) = cardinality($1::uuid[]))::int FROM (SELECT 1"
    " FROM (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(key, version)" PG_ONE_BY_ONE
    " JOIN operation o ON o.grp = p.grp AND o.key = p.key AND o.version = p.version"
    " FOR UPDATE OF o) AS held"};
constexpr PgStatement kHoldIntents{
    "hold_intents",
    "SELECT 1 / (count(*) = cardinality($1::uuid[]))::int FROM (SELECT 1"
    " FROM (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(intent, version)" PG_ONE_BY_ONE
    " JOIN intent i ON i.grp = p.grp AND i.intent = p.intent AND i.version = p.version"
    " FOR UPDATE OF i) AS held"};
constexpr PgStatement kHoldFlows{
    "hold_flows",
    "SELECT 1 / (count(*) = cardinality($1::uuid[]))::int FROM (SELECT 1"
    " FROM (SELECT *, $4::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[], $3::bigint[])"
    " AS q(flow, version, steps)" PG_ONE_BY_ONE
    " JOIN flow f ON f.grp = p.grp AND f.flow = p.flow AND f.version = p.version"
    " AND p.steps IN (-1, f.steps) FOR UPDATE OF f) AS held"};
constexpr PgStatement kNoOperations{"no_operations",
                                    "SELECT 1 / (count(*) = 0)::int FROM (SELECT *, $2::text AS grp"
                                    " FROM unnest($1::uuid[]) AS q(key)" PG_ONE_BY_ONE
                                    " JOIN operation o ON o.grp = p.grp AND o.key = p.key"};
constexpr PgStatement kNoIntents{"no_intents",
                                 "SELECT 1 / (count(*) = 0)::int FROM (SELECT *, $2::text AS grp"
                                 " FROM unnest($1::uuid[]) AS q(intent)" PG_ONE_BY_ONE
                                 " JOIN intent i ON i.grp = p.grp AND i.intent = p.intent"};
constexpr PgStatement kNoFlows{"no_flows",
                               "SELECT 1 / (count(*) = 0)::int FROM (SELECT *, $2::text AS grp"
                               " FROM unnest($1::uuid[]) AS q(flow)" PG_ONE_BY_ONE
                               " JOIN flow f ON f.grp = p.grp AND f.flow = p.flow"};

#define PG_OPERATION_ROWS                                                                    \
  "unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]," \
  " $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::uuid[],"    \
  " $13::bigint[]) AS p(key, generation, newest, flags, op, phase, cause, attempt, sender, " \
  "before,"                                                                                  \
  " wall_ms, flow, last)"
constexpr PgStatement kPutOperations{
    "put_operations",
    "INSERT INTO operation (grp, key, generation, newest_generation, flags, op_stream, op_number,"
    " phase, cause, attempt, sender, before_stream, before_number, wall_ms, flow, last_stream,"
    " last_number)"
    " SELECT $14::text, key, generation, newest, flags::int, " PG_ID("op") ", phase::smallint, "
    "cause::smallint, attempt::int, sender, " PG_ID("before") ", wall_ms, flow, " PG_ID("last")
    " FROM " PG_OPERATION_ROWS};
constexpr PgStatement kSetOperations{
    "set_operations",
    "UPDATE operation o SET generation = p.generation, newest_generation = p.newest,"
    " flags = p.flags::int, op_stream = p.op >> 36, op_number = p.op & 68719476735,"
    " phase = p.phase::smallint, cause = p.cause::smallint, attempt = p.attempt::int,"
    " version = o.version + 1, sender = p.sender, before_stream = p.before >> 36,"
    " before_number = p.before & 68719476735, wall_ms = p.wall_ms, flow = p.flow,"
    " last_stream = p.last >> 36, last_number = p.last & 68719476735, at = now()"
    " FROM (SELECT *, $14::text AS grp FROM " PG_OPERATION_ROWS PG_ONE_BY_ONE
    " WHERE o.grp = p.grp AND o.key = p.key"};
constexpr PgStatement kPutIntents{
    "put_intents",
    "INSERT INTO intent (grp, intent, stream, number) SELECT $3::text, p.intent, " PG_ID(
        "p.row") " FROM unnest($1::uuid[], $2::bigint[]) AS p(intent, row)"};
constexpr PgStatement kSetIntents{
    "set_intents",
    "UPDATE intent i SET stream = p.row >> 36, number = p.row & 68719476735, version = i.version + "
    "1"
    " FROM (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(intent, row)" PG_ONE_BY_ONE
    " WHERE i.grp = p.grp AND i.intent = p.intent"};
// The last effect counts, whoever writes it down first.
constexpr PgStatement kPutMarks{
    "put_marks",
    "INSERT INTO intent (grp, intent, stream, number, place)"
    " SELECT s.grp, p.mark, " PG_ID("p.row") ", s.place + p.place FROM stream s,"
    " unnest($2::uuid[], $3::bigint[], $4::bigint[]) AS p(mark, row, place)"
    " WHERE s.stream = $1::bigint"
    " ON CONFLICT (grp, intent) DO UPDATE SET stream = excluded.stream, number = excluded.number,"
    " place = excluded.place, version = intent.version + 1 WHERE intent.place < excluded.place"};
// Of a flow that begins the place of its first row is not known yet: it is negative, and counts
// from that of the batch.
#define PG_OPENED                         \
  "CASE WHEN p.opened >= 0 THEN p.opened" \
  " ELSE (SELECT place - p.opened FROM stream WHERE stream = $2::bigint) END"
#define PG_FLOW_ROWS                                                                            \
  "unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[],"   \
  " $9::bigint[], $10::bigint[]) AS p(flow, number, phase, cause, steps, has_deadline, opened," \
  " moved)"
constexpr PgStatement kPutFlows{
    "put_flows",
    "INSERT INTO flow (flow, grp, flow_stream, flow_number, phase, cause, steps, has_deadline,"
    " opened, row_stream, row_number) SELECT flow, $1::text, " PG_ID(
        "number") ", phase::smallint, cause::smallint, steps, has_deadline, " PG_OPENED
                  ", " PG_ID("p.moved") " FROM " PG_FLOW_ROWS};
constexpr PgStatement kSetFlows{
    "set_flows",
    "UPDATE flow f SET flow_stream = p.number >> 36,"
    " flow_number = p.number & 68719476735, phase = p.phase::smallint, cause = p.cause::smallint,"
    " version = f.version + 1, steps = p.steps, has_deadline = p.has_deadline, opened = " PG_OPENED
    ","
    " row_stream = p.moved >> 36, row_number = p.moved & 68719476735, at = now()"
    " FROM (SELECT *, $1::text AS grp FROM " PG_FLOW_ROWS PG_ONE_BY_ONE
    " WHERE f.grp = p.grp AND f.flow = p.flow"};
constexpr PgStatement kAddSteps{
    "add_steps",
    "UPDATE flow f SET steps = f.steps + p.more, at = now()"
    " FROM (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(flow, more)" PG_ONE_BY_ONE
    " WHERE f.grp = p.grp AND f.flow = p.flow"};
constexpr PgStatement kPutWork{
    "put_work",
    "INSERT INTO work (kind, stream, number, grp, owner)"
    " SELECT kind::smallint, " PG_ID("subject") ", $1::text, $2::bigint"
    " FROM unnest($3::bigint[], $4::bigint[]) AS p(kind, subject)"
    " ON CONFLICT (grp, kind, stream, number) DO UPDATE SET due_at = now(),"
    " owner = excluded.owner"};
constexpr PgStatement kDropWork{
    "drop_work",
    "DELETE FROM work w USING (SELECT kind::smallint, subject >> 36 AS stream,"
    " subject & 68719476735 AS number, $3::text AS grp"
    " FROM unnest($1::bigint[], $2::bigint[]) AS q(kind, subject)" PG_ONE_BY_ONE
    " WHERE w.grp = p.grp AND w.kind = p.kind AND w.stream = p.stream AND w.number = p.number"};
constexpr PgStatement kPutEvents{
    "put_events",
    "INSERT INTO event (stream, number, day, place, won, kind, grp, at, tool, caller, phase, key,"
    " op_stream, op_number, prev_stream, prev_number, bytes)"
    " SELECT $1::bigint, p.number, (extract(epoch FROM now()) / 86400)::int, s.place + p.place,"
    " true,"
    " kind::smallint, $2::text, now(), tool, caller, phase::smallint, key, " PG_ID("op") ", "
    PG_ID("prev") ", bytes"
    " FROM stream s,"
    " unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::bigint[],"
    " $9::uuid[], $10::bigint[], $11::bigint[], $12::bytea[])"
    " AS p(number, place, kind, tool, caller, phase, key, op, prev, bytes)"
    " WHERE s.stream = $1::bigint"};

template <class Map>
PgArguments KeysOf(const Map& rows, std::string_view group) {
  PgArray array(PgArray::Of::kUuid);
  for (const auto& [key, row] : rows) array.Uuid(DigestOfUuid(key));
  PgArguments arguments;
  array.AppendTo(arguments);
  arguments.Bytes(group);
  return arguments;
}

// Rows that are to be there as they were read, and rows that are not to be there. Of those that the
// batch makes new their own index tells.
template <class Map, class Made>
void QueueHolds(PgConnection& connection, const Map& read, const Made& made,
                const PgStatement& holds, const PgStatement& none, std::string_view group) {
  PgArray keys(PgArray::Of::kUuid), versions(PgArray::Of::kInt), absent(PgArray::Of::kUuid);
  for (const auto& [key, row] : read) {
    if (row.version == 0) {
      if (!made.contains(key)) absent.Uuid(DigestOfUuid(key));
      continue;
    }
    keys.Uuid(DigestOfUuid(key));
    versions.Int(row.version);
  }
  PgArguments held, missing;
  keys.AppendTo(held);
  versions.AppendTo(held);
  absent.AppendTo(missing);
  held.Bytes(group);
  missing.Bytes(group);
  if (keys.size() > 0) connection.Queue(holds, held);
  if (absent.size() > 0) connection.Queue(none, missing);
}

void QueueFlowHolds(PgConnection& connection, const PgReadAndMade& all, std::string_view group) {
  PgArray keys(PgArray::Of::kUuid), versions(PgArray::Of::kInt), steps(PgArray::Of::kInt);
  PgArray absent(PgArray::Of::kUuid);
  for (const auto& [key, row] : all.read.flows) {
    if (row.version == 0) {
      if (!all.flows.contains(key)) absent.Uuid(DigestOfUuid(key));
      continue;
    }
    keys.Uuid(DigestOfUuid(key));
    versions.Int(row.version);
    steps.Int(all.moved.contains(key) ? row.steps : -1);
  }
  PgArguments held, missing;
  for (const PgArray* const array : {&keys, &versions, &steps}) array->AppendTo(held);
  absent.AppendTo(missing);
  held.Bytes(group);
  missing.Bytes(group);
  if (keys.size() > 0) connection.Queue(kHoldFlows, held);
  if (absent.size() > 0) connection.Queue(kNoFlows, missing);
}

using Of = PgArray::Of;
const std::vector<Of> kOperationTypes = {Of::kUuid, Of::kInt,  Of::kInt, Of::kInt, Of::kInt,
                                         Of::kInt,  Of::kInt,  Of::kInt, Of::kInt, Of::kInt,
                                         Of::kInt,  Of::kUuid, Of::kInt};
const std::vector<Of> kFlowTypes = {Of::kUuid, Of::kInt,  Of::kInt, Of::kInt,
                                    Of::kInt,  Of::kBool, Of::kInt, Of::kInt};
const std::vector<Of> kEventTypes = {Of::kInt, Of::kInt,  Of::kInt, Of::kText, Of::kText,
                                     Of::kInt, Of::kUuid, Of::kInt, Of::kInt,  Of::kBytes};

}  // namespace

void QueuePgLocks(PgConnection& connection, const PgStreamEnd& own, const Versions& read) {
  connection.Queue(kBegin);
  connection.Queue(kFence, PgArguments()
                               .Int(AsInt(own.stream))
                               .Int(AsInt(own.head))
                               .Bytes(AsView(own.chain))
                               .Int(AsInt(own.beat)));
  connection.Queue(kLockFlows, KeysOf(read.flows, own.group));
  connection.Queue(kLockIntents, KeysOf(read.intents, own.group));
  connection.Queue(kLockOperations, KeysOf(read.operations, own.group));
}

bool MovesFlow(const StoredFlow& now, const StoredFlow& before) { return now.row != before.row; }

PgReadAndMade PgReadAndMadeOf(const std::vector<PlannedRows>& plans) {
  PgReadAndMade all;
  for (const PlannedRows& planned : plans) {
    all.read.operations.insert(planned.read->operations.begin(), planned.read->operations.end());
    all.read.intents.insert(planned.read->intents.begin(), planned.read->intents.end());
    all.read.flows.insert(planned.read->flows.begin(), planned.read->flows.end());
    for (const auto& [key, row] : planned.changes.operations) all.operations.insert(key);
    for (const auto& [key, row] : planned.changes.intents) all.intents.insert(key);
    for (const auto& [key, row] : planned.changes.flows) {
      all.flows.insert(key);
      const auto before = planned.read->flows.find(key);
      if (before != planned.read->flows.end() && MovesFlow(row, before->second)) {
        all.moved.insert(key);
      }
    }
  }
  return all;
}

void QueuePgFence(PgConnection& connection, const PgFence& fence, const PgReadAndMade& all) {
  connection.Queue(kFenceAndHead, PgArguments()
                                      .Int(AsInt(fence.old.stream))
                                      .Int(AsInt(fence.old.head))
                                      .Int(AsInt(fence.head))
                                      .Bytes(AsView(fence.chain))
                                      .Int(AsInt(fence.low))
                                      .Int(AsInt(fence.open))
                                      .Bool(fence.begins)
                                      .Bytes(AsView(fence.old.chain))
                                      .Int(AsInt(fence.old.beat)));
  QueueFlowHolds(connection, all, fence.old.group);
  QueueHolds(connection, all.read.intents, all.intents, kHoldIntents, kNoIntents, fence.old.group);
  QueueHolds(connection, all.read.operations, all.operations, kHoldOperations, kNoOperations,
             fence.old.group);
}

std::optional<PgLocks> TakePgLocks(const std::vector<PgRows>& rows) {
  const PgRows& fence = rows.at(1);
  if (fence.size() == 0) return std::nullopt;
  PgLocks locks;
  locks.place = fence.Number(0, 0);
  locks.is_held = fence.Int(0, 1) != 0;
  for (int row = 0; row < rows.at(2).size(); ++row) {
    locks.flows[AsUuid(rows.at(2).Uuid(row, 0))] = {rows.at(2).Int(row, 1), rows.at(2).Int(row, 2)};
  }
  for (int row = 0; row < rows.at(3).size(); ++row) {
    locks.intents[AsUuid(rows.at(3).Uuid(row, 0))] = rows.at(3).Int(row, 1);
  }
  for (int row = 0; row < rows.at(4).size(); ++row) {
    locks.operations[AsUuid(rows.at(4).Uuid(row, 0))] = rows.at(4).Int(row, 1);
  }
  return locks;
}

bool PgLocks::Hold(const PlannedRows& planned) const {
  const auto is_same = [](const auto& now, const auto& read) {
    return std::ranges::all_of(read, [&](const auto& one) {
      const auto found = now.find(one.first);
      return (found == now.end() ? 0 : found->second) == one.second.version;
    });
  };
  const Versions& read = *planned.read;
  if (!is_same(operations, read.operations) || !is_same(intents, read.intents)) return false;
  return std::ranges::all_of(read.flows, [&](const auto& one) {
    const auto found = flows.find(one.first);
    const Flow now = found == flows.end() ? Flow() : found->second;
    // Who moves a flow has to know of all its steps.
    const auto change = planned.changes.flows.find(one.first);
    const bool moves =
        change != planned.changes.flows.end() && MovesFlow(change->second, one.second);
    return now.version == one.second.version && (!moves || now.steps == one.second.steps);
  });
}

PgBatchWriter::Columns::Columns(std::vector<PgArray::Of> types) {
  for (const PgArray::Of type : types) arrays_.emplace_back(type);
}

void PgBatchWriter::Columns::QueueIfAny(PgConnection& connection, const PgStatement& statement,
                                        PgArguments before, const std::string* behind) const {
  if (arrays_.front().size() == 0) return;
  for (const PgArray& array : arrays_) array.AppendTo(before);
  if (behind != nullptr) before.Bytes(*behind);
  connection.Queue(statement, before);
}

PgBatchWriter::PgBatchWriter(std::uint64_t stream, std::string_view group, std::uint64_t head)
    : stream_(stream),
      group_(group),
      head_(head),
      new_operations_(kOperationTypes),
      operations_(kOperationTypes),
      new_intents_({Of::kUuid, Of::kInt}),
      intents_({Of::kUuid, Of::kInt}),
      marks_({Of::kUuid, Of::kInt, Of::kInt}),
      new_flows_(kFlowTypes),
      flows_(kFlowTypes),
      steps_({Of::kUuid, Of::kInt}),
      work_({Of::kInt, Of::kInt}),
      done_work_({Of::kInt, Of::kInt}),
      events_(kEventTypes) {}

std::int64_t PgBatchWriter::Behind(std::uint64_t id) const {
  return AsInt(UnpackRowId(id).number - head_);
}

void PgBatchWriter::AddOperation(const Uuid& key, const StoredOperation& row) {
  Columns& columns = row.version == 0 ? new_operations_ : operations_;
  columns[0].Uuid(DigestOfUuid(key));
  columns[1].Int(row.generation);
  columns[2].Int(row.newest_generation);
  columns[3].Int(PgFlagsOf(row));
  columns[4].Int(AsInt(row.operation));
  columns[5].Int(static_cast<std::int64_t>(row.phase));
  columns[6].Int(static_cast<std::int64_t>(row.cause));
  columns[7].Int(row.attempt);
  columns[8].Int(AsInt(row.sender));
  columns[9].Int(AsInt(row.before));
  columns[10].Int(row.wall_ms);
  if (row.flow) {
    columns[11].Uuid(DigestOfUuid(*row.flow));
  } else {
    columns[11].Null();
  }
  columns[12].Int(AsInt(row.last_event));
}

void PgBatchWriter::AddFlow(const Uuid& key, const StoredFlow& row, const Changes& changes) {
  const auto opened = changes.opened.find(key);
  const auto more = changes.steps.find(key);
  Columns& columns = row.version == 0 ? new_flows_ : flows_;
  columns[0].Uuid(DigestOfUuid(key));
  columns[1].Int(AsInt(row.number));
  columns[2].Int(static_cast<std::int64_t>(row.phase));
  columns[3].Int(static_cast<std::int64_t>(row.cause));
  columns[4].Int(row.steps + (more == changes.steps.end() ? 0 : more->second));
  columns[5].Bool(row.has_deadline);
  columns[6].Int(opened == changes.opened.end() ? AsInt(row.opened) : -Behind(opened->second));
  columns[7].Int(AsInt(row.row));
}

void PgBatchWriter::AddWork(const WorkChange& change) {
  Columns& columns = change.is_done ? done_work_ : work_;
  columns[0].Int(static_cast<std::int64_t>(change.kind));
  columns[1].Int(AsInt(change.subject));
}

void PgBatchWriter::Add(const Changes& changes) {
  for (const auto& [key, row] : changes.operations) AddOperation(key, row);
  for (const auto& [intent, row] : changes.intents) {
    Columns& columns = row.version == 0 ? new_intents_ : intents_;
    columns[0].Uuid(DigestOfUuid(intent));
    columns[1].Int(AsInt(row.row));
  }
  for (const auto& [mark, row] : changes.marks)
    marks_rows_[mark] = std::max(marks_rows_[mark], row);
  for (const auto& [key, row] : changes.flows) AddFlow(key, row, changes);
  for (const auto& [key, more] : changes.steps) {
    if (!changes.flows.contains(key)) more_steps_[key] += more;
  }
  for (const WorkChange& change : changes.work) AddWork(change);
}

void PgBatchWriter::AddRow(std::uint64_t id, std::string_view bytes, const LogColumns* columns) {
  static const LogColumns kNoColumns;
  const LogColumns& row = columns == nullptr ? kNoColumns : *columns;
  constexpr std::size_t kKindAt = 6;
  events_[0].Int(AsInt(UnpackRowId(id).number));
  events_[1].Int(Behind(id));
  events_[2].Int(static_cast<unsigned char>(bytes[kKindAt]));
  events_[3].Bytes(row.tool);
  events_[4].Bytes(row.caller);
  events_[5].Int(static_cast<std::int64_t>(row.phase));
  if (row.key) {
    events_[6].Uuid(*row.key);
  } else {
    events_[6].Null();
  }
  events_[7].Int(AsInt(row.operation));
  events_[8].Int(AsInt(row.previous));
  events_[9].Bytes(bytes);
}

void PgBatchWriter::Queue(PgConnection& connection) {
  for (const auto& [mark, row] : marks_rows_) {
    marks_[0].Uuid(DigestOfUuid(mark));
    marks_[1].Int(AsInt(row));
    // Of an operation that a human refused: it is no row of this batch.
    marks_[2].Int(UnpackRowId(row).stream == stream_ ? Behind(row) : 0);
  }
  for (const auto& [flow, more] : more_steps_) {
    steps_[0].Uuid(DigestOfUuid(flow));
    steps_[1].Int(more);
  }
  const PgArguments stream = PgArguments().Int(AsInt(stream_));
  const PgArguments group = PgArguments().Bytes(group_).Int(AsInt(stream_));
  new_flows_.QueueIfAny(connection, kPutFlows, group);
  flows_.QueueIfAny(connection, kSetFlows, group);
  steps_.QueueIfAny(connection, kAddSteps, {}, &group_);
  new_intents_.QueueIfAny(connection, kPutIntents, {}, &group_);
  intents_.QueueIfAny(connection, kSetIntents, {}, &group_);
  marks_.QueueIfAny(connection, kPutMarks, stream);
  new_operations_.QueueIfAny(connection, kPutOperations, {}, &group_);
  operations_.QueueIfAny(connection, kSetOperations, {}, &group_);
  done_work_.QueueIfAny(connection, kDropWork, {}, &group_);
  work_.QueueIfAny(connection, kPutWork, group);
  events_.QueueIfAny(connection, kPutEvents, PgArguments().Int(AsInt(stream_)).Bytes(group_));
}

}  // namespace recourse
