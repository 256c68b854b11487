#include "filters/ledger/postgres/schema.h"

#include <openssl/rand.h>

#include <algorithm>

#include "filters/ledger/postgres/pg_values.h"
#include "proxy/base/check.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

// Digests are the first 16 bytes, in the type that has that width everywhere. No index mentions
// what an outcome changes, so that its update stays within its page.
constexpr const char* kTables = R"sql(
CREATE SEQUENCE IF NOT EXISTS stream_number AS bigint MINVALUE 1 MAXVALUE 134217727;
-- In the order of what is committed one after the other, over all streams; has gaps.
CREATE SEQUENCE IF NOT EXISTS place AS bigint;
CREATE TABLE IF NOT EXISTS ledger (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  identity bytea NOT NULL,
  schema_version int NOT NULL,
  min_writer int NOT NULL,
  install_id text NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS stream (
  stream bigint PRIMARY KEY,
  grp text NOT NULL,
  pod text NOT NULL,
  version text NOT NULL,
  policy uuid,
  state smallint NOT NULL DEFAULT 1,
  beat bigint NOT NULL DEFAULT 0,
  head bigint NOT NULL DEFAULT 0,
  chain bytea NOT NULL,
  place bigint NOT NULL DEFAULT 0,
  low bigint NOT NULL DEFAULT 0,
  open bigint NOT NULL DEFAULT 0,
  taken_by bigint,
  at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 10);
CREATE INDEX IF NOT EXISTS stream_of_group ON stream (grp) WHERE state < 3;
CREATE TABLE IF NOT EXISTS operation (
  key uuid PRIMARY KEY,
  generation bigint NOT NULL DEFAULT 0,
  newest_generation bigint NOT NULL DEFAULT 0,
  flags int NOT NULL DEFAULT 0,
  op_stream bigint NOT NULL DEFAULT 0,
  op_number bigint NOT NULL DEFAULT 0,
  phase smallint NOT NULL DEFAULT 0,
  cause smallint NOT NULL DEFAULT 0,
  attempt int NOT NULL DEFAULT 0,
  version bigint NOT NULL DEFAULT 1,
  sender bigint NOT NULL DEFAULT 0,
  flow uuid,
  last_stream bigint NOT NULL DEFAULT 0,
  last_number bigint NOT NULL DEFAULT 0,
  before_stream bigint NOT NULL DEFAULT 0,
  before_number bigint NOT NULL DEFAULT 0,
  wall_ms bigint NOT NULL DEFAULT 0,
  at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 50);
CREATE INDEX IF NOT EXISTS operation_flow ON operation (flow) WHERE flow IS NOT NULL;
-- The operation that was sent last of an intent, and the row of the last effect at a mark.
CREATE TABLE IF NOT EXISTS intent (
  intent uuid PRIMARY KEY,
  stream bigint NOT NULL,
  number bigint NOT NULL,
  place bigint NOT NULL DEFAULT 0,
  version bigint NOT NULL DEFAULT 1);
CREATE TABLE IF NOT EXISTS flow (
  flow uuid PRIMARY KEY,
  grp text NOT NULL,
  flow_stream bigint NOT NULL DEFAULT 0,
  flow_number bigint NOT NULL DEFAULT 0,
  phase smallint NOT NULL DEFAULT 0,
  cause smallint NOT NULL DEFAULT 0,
  version bigint NOT NULL DEFAULT 1,
  steps bigint NOT NULL DEFAULT 0,
  has_deadline boolean NOT NULL DEFAULT false,
  opened bigint NOT NULL DEFAULT 0,
  row_stream bigint NOT NULL DEFAULT 0,
  row_number bigint NOT NULL DEFAULT 0,
  name text NOT NULL DEFAULT '',
  policy text NOT NULL DEFAULT '',
  deadline_at timestamptz,
  at timestamptz NOT NULL DEFAULT now()) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS flow_unfinished ON flow (grp, flow_stream, flow_number)
  WHERE phase NOT IN (2, 5);
CREATE TABLE IF NOT EXISTS event (
  stream bigint NOT NULL,
  number bigint NOT NULL,
  day int NOT NULL,
  place bigint NOT NULL,
  won boolean NOT NULL,
  kind smallint NOT NULL,
  grp text NOT NULL,
  at timestamptz NOT NULL,
  tool text,
  caller text,
  phase smallint NOT NULL DEFAULT 0,
  key uuid,
  op_stream bigint NOT NULL DEFAULT 0,
  op_number bigint NOT NULL DEFAULT 0,
  prev_stream bigint NOT NULL DEFAULT 0,
  prev_number bigint NOT NULL DEFAULT 0,
  bytes bytea NOT NULL,
  PRIMARY KEY (stream, number, day)) PARTITION BY RANGE (day);
ALTER TABLE event ALTER bytes SET STORAGE EXTERNAL;
-- Of days that have no partition of their own.
CREATE TABLE IF NOT EXISTS event_rest PARTITION OF event DEFAULT;
ALTER TABLE event_rest ALTER bytes SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS work (
  kind smallint NOT NULL,
  stream bigint NOT NULL,
  number bigint NOT NULL,
  grp text NOT NULL,
  due_at timestamptz NOT NULL DEFAULT now(),
  owner bigint,
  tries int NOT NULL DEFAULT 0,
  policy text NOT NULL DEFAULT '',
  PRIMARY KEY (kind, stream, number));
CREATE INDEX IF NOT EXISTS work_due ON work (grp, due_at);
CREATE INDEX IF NOT EXISTS work_owner ON work (owner);
CREATE TABLE IF NOT EXISTS policy (
  digest uuid PRIMARY KEY,
  grp text NOT NULL,
  version text NOT NULL,
  bytes bytea NOT NULL DEFAULT ''::bytea);
-- Version 2. While the ledger is restored and nobody has accepted that, streams are held: they
-- begin nothing. Rows up to `base` are removed, and that one's hash stands here.
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS restored_at timestamptz;
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS accepted_at timestamptz;
ALTER TABLE ledger ADD COLUMN IF NOT EXISTS accepted_why text NOT NULL DEFAULT '';
ALTER TABLE stream ADD COLUMN IF NOT EXISTS held boolean NOT NULL DEFAULT false;
ALTER TABLE stream ADD COLUMN IF NOT EXISTS base bigint NOT NULL DEFAULT 0;
ALTER TABLE stream ADD COLUMN IF NOT EXISTS base_chain bytea NOT NULL DEFAULT ''::bytea;
-- Version 3. Whose rows an imported stream has, and the operations that are kept though their first
-- row, whose number is their name, is not. Groups are told apart by rows that have one.
ALTER TABLE stream ADD COLUMN IF NOT EXISTS source bytea NOT NULL DEFAULT ''::bytea;
CREATE TABLE IF NOT EXISTS moved (
  stream bigint NOT NULL,
  number bigint NOT NULL,
  grp text NOT NULL,
  key uuid NOT NULL,
  PRIMARY KEY (stream, number));
CREATE INDEX IF NOT EXISTS moved_key ON moved (key);
ALTER TABLE operation ADD COLUMN IF NOT EXISTS grp text NOT NULL DEFAULT '';
ALTER TABLE intent ADD COLUMN IF NOT EXISTS grp text NOT NULL DEFAULT '';
-- Version 4. Groups by how their keys are made: with the install secret itself, as before they were
-- told apart, or with a secret of the group.
CREATE TABLE IF NOT EXISTS secret (
  grp text PRIMARY KEY,
  is_shared boolean NOT NULL);
-- Since version 5: which group has accepted that the ledger was restored, if that is later than it
-- was.
ALTER TABLE secret ADD COLUMN IF NOT EXISTS accepted_at timestamptz;
-- Since version 6: the policy that a process has announced, beside the one in force.
ALTER TABLE stream ADD COLUMN IF NOT EXISTS next_policy uuid;
-- Lists go by it, over all streams of a group.
CREATE INDEX IF NOT EXISTS event_of_group ON event (grp, place);
DROP INDEX IF EXISTS event_place;
)sql";

// Each group has its own keys, intents, names of flows, and work. A writer of older tables would
// not know: its streams end, to be taken over, and it can begin none, as it says no version.
constexpr const char* kToVersion4 = R"sql(
ALTER TABLE operation DROP CONSTRAINT operation_pkey, ADD PRIMARY KEY (grp, key);
ALTER TABLE intent DROP CONSTRAINT intent_pkey, ADD PRIMARY KEY (grp, intent);
ALTER TABLE flow DROP CONSTRAINT flow_pkey, ADD PRIMARY KEY (grp, flow);
ALTER TABLE work DROP CONSTRAINT work_pkey, ADD PRIMARY KEY (grp, kind, stream, number);
ALTER TABLE stream ADD COLUMN tables int NOT NULL DEFAULT 3;
ALTER TABLE stream ALTER tables DROP DEFAULT;
UPDATE stream SET state = 2, taken_by = NULL WHERE state = 1;
)sql";
// Of tables that have rows. What was written before rows of these two had a group has the one whose
// process wrote it; where that is not known any more, the only one that there has been.
constexpr const char* kNameGroups = R"sql(
UPDATE operation o SET grp = s.grp FROM stream s WHERE o.grp = '' AND s.stream =
  CASE WHEN o.op_number > 0 THEN o.op_stream ELSE o.last_stream END;
UPDATE intent i SET grp = s.grp FROM stream s WHERE i.grp = '' AND s.stream = i.stream;
UPDATE operation SET grp = (SELECT max(grp) FROM stream) WHERE grp = ''
  AND (SELECT count(DISTINCT grp) FROM stream) = 1;
UPDATE intent SET grp = (SELECT max(grp) FROM stream) WHERE grp = ''
  AND (SELECT count(DISTINCT grp) FROM stream) = 1;
INSERT INTO secret SELECT DISTINCT grp, true FROM stream ON CONFLICT DO NOTHING;
-- Roles see of it what they see of the others.
DO $$ DECLARE p record; BEGIN
  FOR p IN SELECT policyname AS role, qual FROM pg_policies
    WHERE schemaname = current_schema() AND tablename = 'moved' LOOP
    EXECUTE format('GRANT SELECT ON secret TO %I', p.role);
    IF has_table_privilege(p.role, 'moved', 'INSERT') THEN
      EXECUTE format('GRANT INSERT ON secret TO %I', p.role);
    END IF;
    EXECUTE format('CREATE POLICY %1$I ON secret TO %1$I USING (%2$s) WITH CHECK (%2$s)',
                   p.role, p.qual);
    ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
  END LOOP; END $$;
)sql";

// Of roles of earlier versions: what they see, in the words of ledger grant since then, so that no
// plan reads a group as a whole for one row.
constexpr const char* kToVersion6 = R"sql(
DO $$ DECLARE p record; BEGIN
  FOR p IN SELECT tablename, policyname, substring(qual FROM $q$^\(grp = ('.*'::text)\)$q$) AS grp
    FROM pg_policies WHERE schemaname = current_schema() AND qual LIKE '(grp = %' LOOP
    EXECUTE format($q$ALTER POLICY %1$I ON %2$I USING (grp || '' = %3$s)
      WITH CHECK (grp || '' = %3$s)$q$, p.policyname, p.tablename, p.grp);
  END LOOP; END $$;
)sql";

// Rows that are there already are put into the index of version 6 while others write. What is left
// of one that did not come to its end is of no use.
std::expected<void, PgFailure> IndexEvents(PgConnection& connection) {
  static constexpr PgStatement kLacksIndex{
      "lacks_index",
      "SELECT to_regclass('event_rest') IS NOT NULL AND to_regclass('event_of_group') IS NULL"};
  connection.Queue(kLacksIndex);
  const auto lacks = connection.Run();
  if (!lacks) return std::unexpected(lacks.error());
  if (lacks->front().Int(0, 0) == 0) return {};
  for (const char* const step :
       {"DROP INDEX CONCURRENTLY IF EXISTS event_rest_of_group",
        "CREATE INDEX CONCURRENTLY event_rest_of_group ON event_rest (grp, place)"}) {
    if (auto done = connection.Execute(step); !done) return done;
  }
  return {};
}

std::unexpected<Unopened> MigrationFailed(PgConnection& connection, const PgFailure& failure) {
  (void)connection.Execute("ROLLBACK");
  Unopened failed = UnopenedBy(connection, failure, {.task = "migration"});
  failed.why = "the ledger's tables cannot be made: " + failed.why;
  return std::unexpected(std::move(failed));
}

constexpr PgStatement kNoteRestored{"note_restored",
                                    "UPDATE ledger SET restored_at = coalesce(restored_at, now())"};
// It may have gone back again since the group accepted that.
constexpr PgStatement kDropAccepted{"drop_accepted",
                                    "UPDATE secret SET accepted_at = NULL WHERE grp = $1::text"};
constexpr PgStatement kHoldStreams{
    "hold_streams",
    "UPDATE stream t SET held = true WHERE NOT held AND NOT EXISTS (SELECT 1 FROM secret s, ledger"
    " l WHERE s.grp = t.grp AND s.accepted_at >= l.restored_at)"};
constexpr PgStatement kKeepNumbers{
    "keep_numbers",
    "SELECT setval('stream_number', greatest(nextval('stream_number'), $1::bigint)),"
    " setval('place', greatest(nextval('place'), $2::bigint))"};
// Ends what stands behind it, by a division by zero.
constexpr PgStatement kIsBehind{"is_behind",
                                "SELECT 1 / count(*) FROM stream WHERE stream = $1::bigint"
                                " AND beat < $2::bigint"};

void QueueTelling(PgConnection& connection, std::string_view group, std::uint64_t stream,
                  std::uint64_t place) {
  connection.Queue(kNoteRestored);
  connection.Queue(kDropAccepted, PgArguments().Bytes(group));
  connection.Queue(kHoldStreams);
  connection.Queue(kKeepNumbers, PgArguments().Int(AsInt(stream)).Int(AsInt(place)));
}

void LogWentBack(std::string_view stands, const std::string& last) {
  Log(LogLevel::kError,
      "the ledger's database was put back to an older state: what was done after that is not "
      "remembered, and would be done again by a repeat; new writes are refused until somebody has "
      "accepted that",
      {{stands, last},
       {"do", "find out what was done since, then run: recourse ledger accept --reason TEXT"}});
}

}  // namespace

std::string_view NameOf(StreamState state) {
  switch (state) {
    case StreamState::kLive:
      return "live";
    case StreamState::kFenced:
      return "taken over";
    case StreamState::kEnded:
      return "ended";
    case StreamState::kComing:
      return "being imported";
  }
  return "other";
}

std::string_view ShownState(StreamState state, std::int64_t silent_s) {
  const bool is_silent = state == StreamState::kLive && silent_s > 3 * kSignOfLifeS;
  return is_silent ? "silent" : NameOf(state);
}

std::expected<void, Unopened> MigratePgSchema(PgConnection& connection) {
  if (auto done = IndexEvents(connection); !done) {
    return MigrationFailed(connection, done.error());
  }
  const auto begun =
      connection.Execute(std::string("BEGIN; SET LOCAL lock_timeout = '2s'; ").append(kTables));
  if (!begun) return MigrationFailed(connection, begun.error());
  // Held until the end: no stream begins meanwhile.
  static constexpr PgStatement kBefore{"version_before",
                                       "SELECT schema_version FROM ledger FOR UPDATE"};
  connection.Queue(kBefore);
  const auto before = connection.Run();
  if (!before) return MigrationFailed(connection, before.error());
  const bool is_new = before->front().size() == 0;
  if (is_new || before->front().Int(0, 0) < 4) {
    std::string sql(is_new ? "" : kNameGroups);
    if (auto done = connection.Execute(sql += kToVersion4); !done) {
      return MigrationFailed(connection, done.error());
    }
  }
  if (!is_new && before->front().Int(0, 0) < 6) {
    if (auto done = connection.Execute(kToVersion6); !done) {
      return MigrationFailed(connection, done.error());
    }
  }
  Digest identity{};
  RC_CHECK(RAND_bytes(identity.data(), static_cast<int>(identity.size())) == 1);
  static constexpr PgStatement kRow{
      "migrate_row",
      "INSERT INTO ledger (identity, schema_version, min_writer) "
      "VALUES ($1::bytea, $2::bigint::int, $3::bigint::int) ON CONFLICT (one) DO UPDATE "
      "SET schema_version = greatest(ledger.schema_version, excluded.schema_version), "
      "min_writer = greatest(ledger.min_writer, excluded.min_writer)"};
  static constexpr PgStatement kCommit{"commit", "COMMIT"};
  connection.Queue(
      kRow, PgArguments().Bytes(AsView(identity)).Int(kPgSchemaVersion).Int(kPgOldestWriter));
  connection.Queue(kCommit);
  if (auto done = connection.Run(); !done) return MigrationFailed(connection, done.error());
  return {};
}

std::expected<PgLedgerFacts, Unopened> ReadPgLedgerFacts(PgConnection& connection,
                                                         const PgPurpose& purpose) {
  static constexpr PgStatement kFacts{
      "ledger_facts",
      "SELECT identity, schema_version, min_writer, install_id, restored_at IS NOT NULL"
      " FROM ledger"};
  connection.Queue(kFacts);
  const auto answered = connection.Run();
  const Unopened older{
      "the ledger's tables are of an older version: run recourse ledger migrate --ledger URL"};
  if (!answered && answered.error().sqlstate == "42703") return std::unexpected(older);
  if (!answered && answered.error().sqlstate != "42P01") {
    return std::unexpected(UnopenedBy(connection, answered.error(), purpose));
  }
  if (!answered || answered->front().size() != 1) {
    return std::unexpected(Unopened{
        "there is no ledger in this database yet: run recourse ledger migrate --ledger URL"});
  }
  const PgRows& row = answered->front();
  PgLedgerFacts facts{.identity = {},
                      .schema_version = static_cast<int>(row.Int(0, 1)),
                      .min_writer = static_cast<int>(row.Int(0, 2)),
                      .install_id = std::string(row.Bytes(0, 3)),
                      .is_restored = row.Int(0, 4) != 0};
  const std::string_view identity = row.Bytes(0, 0);
  if (identity.size() != facts.identity.size()) {
    return std::unexpected(Unopened{"the ledger in this database has no identity"});
  }
  std::copy(identity.begin(), identity.end(), facts.identity.begin());
  if (facts.schema_version < kPgSchemaVersion) return std::unexpected(older);
  if (facts.min_writer > kPgSchemaVersion) {
    return std::unexpected(Unopened{"the ledger is written by a later version of recourse by now"});
  }
  return facts;
}

std::expected<PgAccepted, Unopened> AcceptPgRestored(PgConnection& connection,
                                                     std::string_view group, std::string_view why) {
  // No stream begins meanwhile.
  static constexpr PgStatement kAccept{
      "accept_restored",
      "UPDATE ledger SET accepted_at = now(), accepted_why = $1::text"
      " WHERE restored_at IS NOT NULL RETURNING 1"};
  // Statements of their own: they see the streams that were begun while the first one waited.
  static constexpr PgStatement kOfGroup{
      "accept_of_group",
      "UPDATE secret SET accepted_at = clock_timestamp() WHERE grp = $1::text OR $1::text = ''"
      " RETURNING 1"};
  static constexpr PgStatement kRelease{
      "release_streams",
      "UPDATE stream SET held = false WHERE held AND (grp = $1::text OR $1::text = '')"};
  // Who sees one group alone cannot tell of the others.
  static constexpr PgStatement kForget{
      "forget_restored",
      "UPDATE ledger SET restored_at = NULL WHERE $1::text = '' OR ("
      "NOT row_security_active('stream') AND NOT EXISTS (SELECT 1 FROM stream WHERE held))"
      " RETURNING 1"};
  connection.Queue(kAccept, PgArguments().Bytes(why));
  for (const PgStatement& statement : {kOfGroup, kRelease, kForget}) {
    connection.Queue(statement, PgArguments().Bytes(group));
  }
  const auto done = connection.Run();
  if (!done) return std::unexpected(UnopenedBy(connection, done.error(), {"pod", group}));
  PgAccepted accepted{.was_restored = (*done)[0].size() == 1, .is_all = (*done)[3].size() == 1};
  if (!group.empty() && (*done)[1].size() == 0) {
    return std::unexpected(
        Unopened{"no process of a group " + std::string(group) +
                 " has ever written to it; `recourse ledger status` names the groups"});
  }
  return accepted;
}

std::expected<std::int64_t, PgFailure> ReadPgAcceptedMs(PgConnection& connection,
                                                        std::string_view group) {
  static constexpr PgStatement kAcceptedAt{
      "accepted_at",
      "SELECT coalesce((extract(epoch FROM accepted_at) * 1000)::bigint, 0) FROM secret"
      " WHERE grp = $1::text"};
  connection.Queue(kAcceptedAt, PgArguments().Bytes(group));
  const auto said = connection.Run();
  if (!said) return std::unexpected(said.error());
  return said->front().size() == 0 ? 0 : said->front().Int(0, 0);
}

StreamEnd StreamEndIn(const PgRows& rows, int number_column, int chain_column) {
  StreamEnd end{.number = rows.Number(0, number_column)};
  const std::string_view chain = rows.Bytes(0, chain_column);
  if (chain.size() == end.chain.size()) std::copy(chain.begin(), chain.end(), end.chain.begin());
  return end;
}

bool TellPgWentBack(PgConnection& connection, const OwnEnd& own) {
  QueueTelling(connection, own.group, UnpackRowId(own.head).stream, (own.place >> 12) + 1);
  if (!connection.Run()) return false;
  LogWentBack("last_row", PrintRowId(own.head));
  return true;
}

std::expected<void, PgFailure> TellPgWentBack(PgConnection& connection, std::string_view group,
                                              Watch::Silent seen) {
  connection.Queue(kIsBehind, PgArguments().Int(AsInt(seen.stream)).Int(AsInt(seen.beat)));
  QueueTelling(connection, group, seen.stream, 1);
  const auto told = connection.Run();
  if (!told && told.error().sqlstate == "22012") return {};
  if (!told) return std::unexpected(told.error());
  LogWentBack("stream", std::to_string(seen.stream));
  return {};
}

}  // namespace recourse
