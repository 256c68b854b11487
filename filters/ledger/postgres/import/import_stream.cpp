#include "filters/ledger/postgres/import/import_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/batch_sql.h"
#include "filters/ledger/postgres/schema.h"

namespace recourse {
namespace {

constexpr std::size_t kImportRows = 512, kImportBytes = std::size_t{4} << 20;

// Who begins a stream shares it, and then looks whether something is imported.
constexpr PgStatement kImportHold{"import_hold", "SELECT 1 FROM ledger FOR UPDATE"};
// Who dies with nothing open is missed by nobody; one that lives after all begins another stream,
// or rather does not, once something is imported.
constexpr PgStatement kImportEndIdle{
    "import_end_idle",
    "UPDATE stream s SET state = 3 WHERE s.grp = $1::text AND s.state = 1 AND s.open = 0"
    " AND s.at < now() - $2::bigint * interval '1 second'"
    " AND NOT EXISTS (SELECT 1 FROM work w WHERE w.owner = s.stream)"};
#define PG_LIVES "SELECT s.stream FROM stream s WHERE s.grp = $1::text AND s.state IN (1, 2)"
// Rows that were removed may have been of such calls. With a secret of its own the group knows
// everybody's by other keys.
#define PG_CALLED                                                               \
  "SELECT s.stream FROM stream s WHERE s.grp = $1::text AND s.stream > 0"       \
  " AND (s.base > 0 OR EXISTS (SELECT 1 FROM event e WHERE e.stream = s.stream" \
  "  AND (position($2::text IN e.caller) > 0 OR (e.kind = 1 AND EXISTS"         \
  "   (SELECT 1 FROM secret WHERE grp = $1::text AND NOT is_shared)))))"
constexpr PgStatement kImportBegin{
    "import_begin",
    "INSERT INTO stream (stream, grp, pod, version, state, head, chain, place, base, base_chain,"
    " source, tables) SELECT 0, $1::text, $3::text, '', 4, $4::bigint, $5::bytea, 0, $4::bigint,"
    " $5::bytea, $6::bytea, $7::bigint::int WHERE NOT EXISTS (" PG_LIVES
    ") AND NOT EXISTS (" PG_CALLED ") ON CONFLICT (stream) DO NOTHING"};
// Its keys were made with that.
constexpr PgStatement kImportSecret{
    "import_secret",
    "INSERT INTO secret (grp, is_shared) SELECT grp, true FROM stream WHERE stream = 0"
    " AND grp = $1::text ON CONFLICT (grp) DO UPDATE SET is_shared = true"};
constexpr PgStatement kImportLives{"import_lives", PG_LIVES " LIMIT 1"};
#undef PG_LIVES
#undef PG_CALLED
constexpr PgStatement kImportFind{
    "import_find", "SELECT source, grp, state::bigint, head, chain FROM stream WHERE stream = 0"};
// No row: another import has been at it in between.
constexpr PgStatement kImportHead{
    "import_head",
    "WITH f AS (UPDATE stream SET head = $2::bigint, chain = $3::bytea,"
    " place = nextval('place') << 12, at = now()"
    " WHERE stream = 0 AND state = 4 AND head = $1::bigint RETURNING 1)"
    " SELECT 1 / count(*) FROM f"};
constexpr PgStatement kImportRowsIn{
    "import_rows",
    "INSERT INTO event (stream, number, day, place, won, kind, grp, at, tool, caller, phase, key,"
    " op_number, prev_number, bytes)"
    " SELECT 0, p.number, (p.wall_ms / 86400000)::int, s.place + p.number - $1::bigint, true,"
    " p.kind::smallint, s.grp, to_timestamp(p.wall_ms / 1000.0), p.tool, p.caller,"
    " p.phase::smallint, p.key, p.op, p.prev, p.bytes"
    " FROM stream s, unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[],"
    " $7::bigint[], $8::uuid[], $9::bigint[], $10::bigint[], $11::bytea[])"
    " AS p(number, wall_ms, kind, tool, caller, phase, key, op, prev, bytes) WHERE s.stream = 0"};
constexpr PgStatement kImportLast{"import_last", "BEGIN"};
// What a process of the group has begun meanwhile stays as it is. A tombstone stands as long as one
// that was made now.
constexpr PgStatement kImportOperations{
    "import_operations",
    "WITH i AS (INSERT INTO operation (grp, key, generation, newest_generation, flags, op_number,"
    " phase, cause, attempt, before_number, wall_ms, flow, last_number, at)"
    " SELECT s.grp, p.key, p.generation, p.newest, p.flags::int, p.op, p.phase::smallint,"
    " p.cause::smallint, p.attempt::int, p.before, p.wall_ms, p.flow, p.last,"
    " CASE WHEN p.flags & 4 <> 0 THEN now() ELSE to_timestamp(p.wall_ms / 1000.0) END"
    " FROM stream s, unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::uuid[],"
    " $12::bigint[]) AS p(key, generation, newest, flags, op, phase, cause, attempt, before,"
    " wall_ms, flow, last) WHERE s.stream = 0 ON CONFLICT (grp, key) DO NOTHING RETURNING 1)"
    " SELECT count(*) FROM i"};
constexpr PgStatement kImportIntents{
    "import_intents",
    "INSERT INTO intent (grp, intent, stream, number, place)"
    " SELECT s.grp, p.intent, 0, p.row, CASE WHEN p.is_mark THEN coalesce((SELECT e.place"
    "  FROM event e WHERE e.stream = 0 AND e.number = p.row), 0) ELSE 0 END"
    " FROM stream s, unnest($1::uuid[], $2::bigint[], $3::boolean[]) AS p(intent, row, is_mark)"
    " WHERE s.stream = 0 ON CONFLICT (grp, intent) DO NOTHING"};
constexpr PgStatement kImportFlows{
    "import_flows",
    "INSERT INTO flow (flow, grp, flow_number, phase, cause, steps, has_deadline, opened,"
    " row_number, at)"
    " SELECT p.flow, s.grp, p.number, p.phase::smallint, p.cause::smallint, p.steps,"
    " p.has_deadline, coalesce((SELECT e.place FROM event e WHERE e.stream = 0"
    "  AND e.number = p.opened), 0), p.moved, to_timestamp(p.wall_ms / 1000.0)"
    " FROM stream s, unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],"
    " $6::boolean[], $7::bigint[], $8::bigint[], $9::bigint[])"
    " AS p(flow, number, phase, cause, steps, has_deadline, opened, moved, wall_ms)"
    " WHERE s.stream = 0 ON CONFLICT (grp, flow) DO NOTHING"};
// Of what is this stream's only. Whoever takes the stream over owns it.
constexpr PgStatement kImportWork{
    "import_work",
    "INSERT INTO work (kind, stream, number, grp, owner)"
    " SELECT p.kind::smallint, 0, p.number, s.grp, 0"
    " FROM stream s, unnest($1::bigint[], $2::bigint[], $3::uuid[]) AS p(kind, number, subject)"
    " WHERE s.stream = 0 AND (EXISTS (SELECT 1 FROM operation o WHERE o.grp = s.grp AND o.key = "
    "p.subject"
    "  AND o.op_stream = 0 AND o.op_number = p.number AND p.kind <> 3)"
    " OR EXISTS (SELECT 1 FROM flow f WHERE f.grp = s.grp AND f.flow = p.subject AND f.flow_stream "
    "= 0"
    "  AND f.flow_number = p.number AND p.kind = 3)) ON CONFLICT DO NOTHING"};
constexpr PgStatement kImportMoved{
    "import_moved",
    "INSERT INTO moved (stream, number, grp, key) SELECT 0, p.number, s.grp, p.key"
    " FROM stream s, unnest($1::bigint[], $2::uuid[]) AS p(number, key) WHERE s.stream = 0"
    " ON CONFLICT DO NOTHING"};
constexpr PgStatement kImportEnd{
    "import_end",
    "WITH f AS (UPDATE stream SET state = CASE WHEN $2::bigint > 0 THEN 2 ELSE 3 END,"
    " open = $2::bigint, low = $3::bigint, at = now()"
    " WHERE stream = 0 AND state = 4 AND head = $1::bigint RETURNING 1)"
    " SELECT 1 / count(*) FROM f"};

Digest DigestIn(const PgRows& rows, int column) {
  Digest digest{};
  const std::string_view bytes = rows.Bytes(0, column);
  if (bytes.size() == digest.size()) std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

// Arrays of one statement, sent a part at a time.
class ImportParts {
 public:
  ImportParts(PgConnection& connection, const PgPurpose& purpose, const PgStatement& statement,
              std::vector<PgArray::Of> of)
      : connection_(connection), purpose_(purpose), statement_(statement), types_(std::move(of)) {
    Renew();
  }
  PgArray& operator[](std::size_t column) { return arrays_[column]; }
  // A row is whole.
  std::expected<void, std::string> Next() {
    return arrays_.front().size() < static_cast<std::int32_t>(kImportRows)
               ? std::expected<void, std::string>()
               : Send();
  }
  std::expected<void, std::string> Send() {
    if (arrays_.front().size() == 0) return {};
    PgArguments arguments;
    for (const PgArray& array : arrays_) array.AppendTo(arguments);
    connection_.Queue(statement_, arguments);
    const auto done = connection_.Run();
    if (!done) return std::unexpected(UnopenedBy(connection_, done.error(), purpose_).why);
    counted_ += done->front().size() > 0 ? done->front().Number(0, 0) : 0;
    Renew();
    return {};
  }
  std::size_t counted() const { return counted_; }

 private:
  void Renew() {
    arrays_.clear();
    for (const PgArray::Of type : types_) arrays_.emplace_back(type);
  }

  PgConnection& connection_;
  const PgPurpose purpose_;
  const PgStatement& statement_;
  const std::vector<PgArray::Of> types_;
  std::vector<PgArray> arrays_;
  std::size_t counted_ = 0;
};

using Column = PgArray::Of;

}  // namespace

std::expected<std::vector<PgRows>, std::string> ImportStream::Run() {
  auto done = connection_.Run();
  if (done) return std::move(*done);
  if (done.error().sqlstate == "22012") {
    return std::unexpected("another import into this database is running, or has just ended");
  }
  return std::unexpected(UnopenedBy(connection_, done.error(), Purpose()).why);
}

ImportStream::Done ImportStream::Begin(const ImportSource& source) {
  group_ = source.group;
  connection_.Queue(kImportHold);
  connection_.Queue(kImportEndIdle, PgArguments().Bytes(source.group).Int(3 * kSignOfLifeS));
  connection_.Queue(kImportBegin, PgArguments()
                                      .Bytes(source.group)
                                      .Bytes(source.agents)
                                      .Bytes(source.pod)
                                      .Int(AsInt(source.base.first_seq - 1))
                                      .Bytes(AsView(source.base.prev_hash))
                                      .Bytes(AsView(source.identity))
                                      .Int(kPgSchemaVersion));
  connection_.Queue(kImportSecret, PgArguments().Bytes(source.group));
  connection_.Queue(kImportFind);
  const auto answered = Run();
  if (!answered) return std::unexpected(answered.error());
  const PgRows& found = answered->back();
  if (found.size() == 0) return std::unexpected(WhyRefused(source));
  if (found.Bytes(0, 0) != AsView(source.identity)) {
    return std::unexpected(
        fmt::format("this database holds the rows of another imported ledger ({}...), and those of "
                    "one keep their numbers: give this one a database of its own",
                    ToHex(DigestIn(found, 0)).substr(0, 8)));
  }
  if (found.Bytes(0, 1) != source.group) {
    return std::unexpected(fmt::format(
        "it was begun to be imported for the group {}; name that with --group", found.Bytes(0, 1)));
  }
  is_complete_ = found.Int(0, 2) != static_cast<int>(StreamState::kComing);
  head_ = found.Number(0, 3);
  chain_ = DigestIn(found, 4);
  return {};
}

std::string ImportStream::WhyRefused(const ImportSource& source) {
  connection_.Queue(kImportLives, PgArguments().Bytes(source.group));
  const auto lives = Run();
  if (!lives) return lives.error();
  if (lives->front().size() > 0) {
    return fmt::format(
        "pods of the group {} are at work (stream {}): stop them, or wait until what dead ones "
        "left is done, then import",
        source.group, lives->front().Number(0, 0));
  }
  return fmt::format(
      "agents have called pods of the group {} (as {}, or by another name); were it imported, they "
      "would be known as those of the volume, and what they repeat would be done again: import it "
      "for another group, or into a database of its own",
      source.group, source.agents);
}

ImportStream::Done ImportStream::Add(const LogColumns& columns, std::string_view bytes,
                                     std::int64_t wall_ms) {
  waiting_.push_back({columns, std::string(bytes), wall_ms});
  waiting_bytes_ += bytes.size();
  return waiting_.size() < kImportRows && waiting_bytes_ < kImportBytes ? Done() : Flush();
}

ImportStream::Done ImportStream::Flush() {
  if (waiting_.empty()) return {};
  std::vector<PgArray> all;
  for (const Column type :
       {Column::kInt, Column::kInt, Column::kInt, Column::kText, Column::kText, Column::kInt,
        Column::kUuid, Column::kInt, Column::kInt, Column::kBytes}) {
    all.emplace_back(type);
  }
  constexpr std::size_t kKindAt = 6;
  for (const Row& row : waiting_) {
    all[0].Int(AsInt(row.columns.id));
    all[1].Int(row.wall_ms);
    all[2].Int(static_cast<unsigned char>(row.bytes[kKindAt]));
    all[3].Bytes(row.columns.tool);
    all[4].Bytes(row.columns.caller);
    all[5].Int(static_cast<std::int64_t>(row.columns.phase));
    if (row.columns.key) {
      all[6].Uuid(*row.columns.key);
    } else {
      all[6].Null();
    }
    all[7].Int(AsInt(row.columns.operation));
    all[8].Int(AsInt(row.columns.previous));
    all[9].Bytes(row.bytes);
  }
  const std::uint64_t head = waiting_.back().columns.id;
  const Digest chain = RowHash(waiting_.back().bytes);
  connection_.Queue(kImportHead,
                    PgArguments().Int(AsInt(head_)).Int(AsInt(head)).Bytes(AsView(chain)));
  PgArguments rows;
  rows.Int(AsInt(head_));
  for (const PgArray& array : all) array.AppendTo(rows);
  connection_.Queue(kImportRowsIn, rows);
  if (auto done = Run(); !done) return std::unexpected(done.error());
  head_ = head;
  chain_ = chain;
  waiting_.clear();
  waiting_bytes_ = 0;
  return {};
}

std::expected<std::size_t, std::string> ImportStream::PutOperations(const ImportedTables& tables) {
  ImportParts parts(
      connection_, Purpose(), kImportOperations,
      {Column::kUuid, Column::kInt, Column::kInt, Column::kInt, Column::kInt, Column::kInt,
       Column::kInt, Column::kInt, Column::kInt, Column::kInt, Column::kUuid, Column::kInt});
  for (const auto& [key, row] : tables.operations()) {
    parts[0].Uuid(DigestOfUuid(key));
    parts[1].Int(row.generation);
    parts[2].Int(row.newest_generation);
    parts[3].Int(PgFlagsOf(row));
    parts[4].Int(AsInt(row.operation));
    parts[5].Int(static_cast<std::int64_t>(row.phase));
    parts[6].Int(static_cast<std::int64_t>(row.cause));
    parts[7].Int(row.attempt);
    parts[8].Int(AsInt(row.before));
    parts[9].Int(row.wall_ms);
    if (row.flow) {
      parts[10].Uuid(DigestOfUuid(*row.flow));
    } else {
      parts[10].Null();
    }
    parts[11].Int(AsInt(row.last_event));
    if (auto sent = parts.Next(); !sent) return std::unexpected(sent.error());
  }
  if (auto sent = parts.Send(); !sent) return std::unexpected(sent.error());
  return parts.counted();
}

ImportStream::Done ImportStream::PutRest(const ImportedTables& tables) {
  ImportParts intents(connection_, Purpose(), kImportIntents,
                      {Column::kUuid, Column::kInt, Column::kBool});
  for (const auto& [intent, row] : tables.intents()) {
    intents[0].Uuid(DigestOfUuid(intent));
    intents[1].Int(AsInt(row.row));
    intents[2].Bool(row.is_mark);
    if (auto sent = intents.Next(); !sent) return sent;
  }
  ImportParts flows(connection_, Purpose(), kImportFlows,
                    {Column::kUuid, Column::kInt, Column::kInt, Column::kInt, Column::kInt,
                     Column::kBool, Column::kInt, Column::kInt, Column::kInt});
  for (const auto& [key, flow] : tables.flows()) {
    flows[0].Uuid(DigestOfUuid(key));
    flows[1].Int(AsInt(flow.stored.number));
    flows[2].Int(static_cast<std::int64_t>(flow.stored.phase));
    flows[3].Int(static_cast<std::int64_t>(flow.stored.cause));
    flows[4].Int(flow.stored.steps);
    flows[5].Bool(flow.stored.has_deadline);
    flows[6].Int(AsInt(flow.stored.opened));
    flows[7].Int(AsInt(flow.stored.row));
    flows[8].Int(flow.wall_ms);
    if (auto sent = flows.Next(); !sent) return sent;
  }
  ImportParts moved(connection_, Purpose(), kImportMoved, {Column::kInt, Column::kUuid});
  for (const auto& [operation, key] : tables.moved()) {
    moved[0].Int(AsInt(operation));
    moved[1].Uuid(DigestOfUuid(key));
    if (auto sent = moved.Next(); !sent) return sent;
  }
  for (ImportParts* const parts : {&intents, &flows, &moved}) {
    if (auto sent = parts->Send(); !sent) return sent;
  }
  // Last: it asks what of the rest has become this stream's.
  ImportParts work(connection_, Purpose(), kImportWork,
                   {Column::kInt, Column::kInt, Column::kUuid});
  for (const auto& [about, subject] : tables.work()) {
    work[0].Int(static_cast<std::int64_t>(about.first));
    work[1].Int(AsInt(about.second));
    work[2].Uuid(DigestOfUuid(subject));
    if (auto sent = work.Next(); !sent) return sent;
  }
  return work.Send();
}

std::expected<ImportStream::Summary, std::string> ImportStream::Complete(
    const ImportedTables& tables) {
  if (auto done = Flush(); !done) return std::unexpected(done.error());
  connection_.Queue(kImportLast);
  if (auto begun = Run(); !begun) return std::unexpected(begun.error());
  const auto added = PutOperations(tables);
  if (!added) return std::unexpected(added.error());
  if (auto put = PutRest(tables); !put) return std::unexpected(put.error());
  Summary summary{.operations = *added,
                  .open = tables.running() + tables.work().size(),
                  .known = tables.operations().size() - *added};
  const std::uint64_t low = tables.low();
  connection_.Queue(kImportEnd, PgArguments()
                                    .Int(AsInt(head_))
                                    .Int(AsInt(summary.open))
                                    .Int(AsInt(low == 0 ? head_ + 1 : low)));
  connection_.Queue(kPgCommit);
  if (auto done = Run(); !done) return std::unexpected(done.error());
  is_complete_ = true;
  return summary;
}

}  // namespace recourse
