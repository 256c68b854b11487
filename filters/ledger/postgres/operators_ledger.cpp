#include "filters/ledger/postgres/operators_ledger.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/pg_values.h"
#include "filters/ledger/postgres/placed_log.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/stored.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/queries/flow_queries.h"
#include "filters/ledger/queries/log_queries.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr PgStatement kStreamsToShow{
    "streams_to_show",
    "SELECT s.stream, s.pod, s.state::bigint, s.head - s.base, s.open,"
    " greatest(0, extract(epoch FROM now() - s.at))::bigint, p.version FROM stream s"
    " LEFT JOIN policy p ON p.digest = s.policy"
    " WHERE s.grp = $1::text AND s.state <> 3 ORDER BY s.stream"};

constexpr std::int64_t kKeptStreams = 16, kKeptRowsCounted = 100'000;
constexpr int kTurnsMissed = 2;
// Who asks for counts waits so long; so long if the last answer did not come; and after a turn has
// taken so long there is none.
constexpr Millis kCountWait{1'000}, kCountWaitAway{100}, kCountSilence{3'000};

// Seconds since the group's turn was due; no row: there has never been one.
constexpr PgStatement kTurnLate{
    "turn_late",
    "SELECT greatest(0, extract(epoch FROM now() - due_at))::bigint FROM work"
    " WHERE kind = 4 AND stream = 0 AND grp = $1::text"};
// The first row of each stream is the one that holds the others.
constexpr PgStatement kKept{
    "kept_rows",
    "SELECT e.stream, e.number, e.op_stream, e.op_number,"
    " extract(epoch FROM now() - e.at)::bigint,"
    " (SELECT count(*) FROM (SELECT 1 FROM event o WHERE o.stream = s.stream AND o.number > s.base"
    "  AND o.at < now() - $2::bigint * interval '1 ms' LIMIT $4::bigint) AS old)"
    " FROM stream s JOIN event e ON e.stream = s.stream AND e.number = s.base + 1"
    " WHERE s.grp = $1::text AND s.base + 1 < s.head AND s.state <> 4"
    " AND e.at < now() - $2::bigint * interval '1 ms' ORDER BY e.at LIMIT $3::bigint"};

constexpr PgStatement kPodOf{"pod_of",
                             "SELECT pod FROM stream WHERE grp = $1::text AND stream = $2::bigint"};

constexpr PgStatement kSharePolicy{
    "share_policy",
    "INSERT INTO policy (digest, grp, version, bytes)"
    " VALUES ($1::uuid, $2::text, $3::text, $4::bytea) ON CONFLICT (digest) DO NOTHING"};
// A process that begins has none in force, and keeps what the stream before it had. Those of
// version 5 know one policy of each process.
constexpr PgStatement kNotePolicies{
    "note_policies",
    "UPDATE stream t SET policy = n.policy, next_policy = $3::uuid"
    " FROM (SELECT s.stream, coalesce(CASE WHEN EXISTS (SELECT 1 FROM stream o WHERE o.grp = s.grp"
    "  AND o.state < 3 AND o.tables < 6) THEN $3::uuid END, $2::uuid, s.policy) AS policy"
    "  FROM stream s WHERE s.stream = $1::bigint) n"
    " WHERE t.stream = n.stream AND (t.policy IS DISTINCT FROM n.policy"
    " OR t.next_policy IS DISTINCT FROM $3::uuid)"};
constexpr PgStatement kFindPolicy{"shared_policy",
                                  "SELECT bytes FROM policy WHERE digest = $1::uuid"
                                  " AND grp = $2::text"};
// Live processes show a sign of life every minute. Of those that began last some have ended.
constexpr PgStatement kPoliciesOfGroup{
    "policies_of_group",
    "SELECT p.version, s.is_live FROM ("
    "(SELECT unnest(ARRAY[policy, next_policy]) AS policy, true AS is_live, stream FROM stream"
    " WHERE grp = $1::text AND state < 3 AND stream <> $2::bigint"
    " AND at > now() - interval '3 minutes')"
    " UNION ALL (SELECT policy, false, stream FROM stream WHERE grp = $1::text"
    " AND stream BETWEEN $2::bigint - 512 AND $2::bigint ORDER BY stream DESC LIMIT 16)) AS s"
    " JOIN policy p ON p.digest = s.policy ORDER BY s.stream DESC"};

// A flow that only its deadline has stopped, with nothing unknown, is not among the parked ones.
constexpr PgStatement kCounts{
    "counts",
    "WITH parked AS (SELECT f.row_stream, f.row_number, f.cause = 5 AND NOT EXISTS (SELECT 1"
    "  FROM operation o WHERE o.flow = f.flow AND " PG_IN_GROUP("o.grp", "f.grp")
    "  AND o.phase IN (5, 6))"
    "  AS is_stopped FROM flow f WHERE f.grp = $1::text AND f.phase = 6)"
    " SELECT (SELECT count(*) FROM work WHERE grp = $1::text AND kind = 1),"
    " (SELECT count(*) FROM work WHERE grp = $1::text AND kind = 2),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase = 1),"
    " (SELECT count(*) FROM flow WHERE grp = $1::text AND phase IN (3, 4)),"
    " (SELECT count(*) FROM parked WHERE NOT is_stopped),"
    " (SELECT min(o.wall_ms) FROM work w JOIN event f ON f.stream = w.stream AND f.number = "
    "w.number AND " PG_IN_GROUP("f.grp", "w.grp")
    " JOIN operation o ON o.grp = f.grp AND o.key = f.key WHERE w.grp = $1::text AND w.kind = 1),"
    " (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c"
    " WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'),"
    " (SELECT restored_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM secret s"
    " WHERE s.grp = $1::text AND s.accepted_at >= restored_at) FROM ledger),"
    " (SELECT count(*) FROM parked WHERE is_stopped),"
    " (SELECT coalesce((extract(epoch FROM min(e.at)) * 1000)::bigint, 0) FROM parked p"
    "  JOIN event e ON e.stream = p.row_stream AND e.number = p.row_number WHERE NOT "
    "p.is_stopped)"};
// Who has something to do says so each second. A turn of the keeper has no owner.
#define PG_LIVES "s.state = 1 AND s.at > now() - interval '3 minutes'"
constexpr PgStatement kOrphans{
    "orphans",
    "SELECT (SELECT count(*) FROM work w WHERE w.grp = $1::text AND w.kind < 4 AND NOT EXISTS"
    " (SELECT 1 FROM stream s WHERE s.stream = w.owner AND " PG_LIVES
    ")) + (SELECT coalesce(sum(greatest(0, s.open - (SELECT count(*) FROM work w WHERE w.owner ="
    " s.stream))), 0) FROM stream s WHERE s.grp = $1::text AND s.state < 3 AND s.open > 0"
    " AND NOT (" PG_LIVES "))::bigint"};
#undef PG_LIVES
// A role that may not look into them is still told how many there are. Who reads a logical slot
// takes nobody's place.
constexpr PgStatement kStandbys{
    "standbys",
    "SELECT count(*) FROM pg_stat_replication r WHERE current_setting('synchronous_standby_names')"
    " = '' AND NOT EXISTS (SELECT 1 FROM pg_replication_slots l WHERE l.active_pid = r.pid AND"
    " l.slot_type = 'logical')"};

// What was read of a log, if the database answered all the time.
template <class Value>
Result<Value> Whole(const EventLog& log, Result<Value> read) {
  if (const auto away = log.away()) return std::unexpected(*away);
  return read;
}

}  // namespace

Millis KeeperEvery(const LedgerRule& rule) {
  const Millis shorter = std::min(rule.retention, rule.tombstones) / limits::kAgeMarksPerRetention;
  return std::clamp(shorter, Millis(limits::kAgeSpacingMin), Millis(limits::kAgeSpacingMax));
}

Millis KeptTooLong(const LedgerRule& rule) {
  return rule.retention + kTurnsMissed * KeeperEvery(rule);
}

std::expected<KeptRows, std::string> ReadPgKeptRows(PgReader& reader, const std::string& group,
                                                    const LedgerRule& rule) {
  const Millis missed = kTurnsMissed * KeeperEvery(rule);
  const auto late = reader.Ask(kTurnLate, PgArguments().Bytes(group));
  if (!late) return std::unexpected(late.error());
  const auto rows = reader.Ask(kKept, PgArguments()
                                          .Bytes(group)
                                          .Int(KeptTooLong(rule).count())
                                          .Int(kKeptStreams)
                                          .Int(kKeptRowsCounted));
  if (!rows) return std::unexpected(rows.error());
  KeptRows kept;
  const bool had_turn = late->front().size() > 0;
  kept.nobody_removes = !had_turn || Millis(1'000 * late->front().Int(0, 0)) > missed;
  const PgRows& found = rows->front();
  for (int row = 0; row < found.size(); ++row) {
    const auto id_at = [&](int column) {
      return PackRowId(
          {static_cast<std::uint32_t>(found.Int(row, column)), found.Number(row, column + 1)});
    };
    kept.behind.push_back({.row = id_at(0),
                           .operation = id_at(2),
                           .age_s = found.Int(row, 4),
                           .rows = found.Number(row, 5)});
  }
  return kept;
}

// Groups with the same text each have their own row: who sees one may not see the other.
Digest PgSharedPolicies::NameOf(const std::string& version) const {
  std::string name;
  AppendPart(name, group_);
  AppendPart(name, version);
  return Sha256(name);
}

std::expected<void, std::string> PgSharedPolicies::Note(std::uint64_t stream) {
  PgArguments arguments;
  arguments.Int(AsInt(stream));
  {
    const std::lock_guard lock(mutex_);
    if (in_force_.empty() && next_.empty()) return {};
    for (const std::string* const version : {&in_force_, &next_}) {
      if (version->empty()) {
        arguments.Null();
      } else {
        arguments.Uuid(NameOf(*version));
      }
    }
  }
  const auto noted = reader_.Ask(kNotePolicies, arguments);
  if (!noted) return std::unexpected(noted.error());
  return {};
}

std::expected<void, std::string> PgSharedPolicies::TakeIntoForce(const std::string& version,
                                                                 std::uint64_t stream) {
  {
    const std::lock_guard lock(mutex_);
    in_force_ = version;
    next_.clear();
  }
  return Note(stream);
}

std::expected<void, std::string> PgSharedPolicies::Share(const std::string& version,
                                                         std::string_view packed,
                                                         std::uint64_t stream) {
  const auto shared = reader_.Ask(
      kSharePolicy, PgArguments().Uuid(NameOf(version)).Bytes(group_).Bytes(version).Bytes(packed));
  if (!shared) return std::unexpected(shared.error());
  {
    const std::lock_guard lock(mutex_);
    next_ = version;
  }
  return Note(stream);
}

Result<std::optional<std::string>> PgSharedPolicies::Find(const std::string& version) {
  const auto found = reader_.Ask(kFindPolicy, PgArguments().Uuid(NameOf(version)).Bytes(group_));
  if (!found) return std::unexpected(PgAway());
  if (found->front().size() == 0) return std::nullopt;
  return std::string(found->front().Bytes(0, 0));
}

Result<SharedLedgerView::Versions> PgSharedPolicies::OfGroup(std::uint64_t own) {
  if (!Note(own)) return std::unexpected(PgAway());
  const auto answered = reader_.Ask(kPoliciesOfGroup, PgArguments().Bytes(group_).Int(AsInt(own)));
  if (!answered) return std::unexpected(PgAway());
  SharedLedgerView::Versions versions;
  const PgRows& rows = answered->front();
  for (int row = 0; row < rows.size(); ++row) {
    auto& among = rows.Int(row, 1) != 0 ? versions.in_force : versions.recent;
    const std::string told(rows.Bytes(row, 0));
    if (std::ranges::find(among, told) == among.end()) among.push_back(told);
  }
  return versions;
}

PgGroupCounter::~PgGroupCounter() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PgGroupCounter::Start() {
  Look();
  thread_ = std::thread([this] { Run(); });
}

void PgGroupCounter::Run() {
  NameThread("recourse-counts");
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return is_stopping_ || told_ < asked_; });
    if (is_stopping_) return;
    const std::uint64_t turn = asked_;
    began_ = PgNow();
    lock.unlock();
    Look();
    lock.lock();
    told_ = turn;
    done_.notify_all();
  }
}

// A turn that goes on may not see what has just happened, so that one more is awaited.
void PgGroupCounter::LookSoon(std::unique_lock<std::mutex>& lock) {
  if (told_ == asked_) began_ = PgNow();
  const std::uint64_t turn = ++asked_;
  wake_.notify_all();
  const MonoTime until = began_ + (answers_ ? kCountWait : kCountWaitAway);
  done_.wait_until(lock, until, [&] { return told_ >= turn; });
}

void PgGroupCounter::Look() {
  const auto counted = reader_.Ask(kCounts, PgArguments().Bytes(group_));
  answers_ = counted.has_value();
  if (!counted) return;
  const PgRows& row = counted->front();
  {
    const std::lock_guard lock(mutex_);
    counts_ = {.at_ms = ToUnixMillis(clock_.WallNow()),
               .uncertain = row.Number(0, 0),
               .used_bytes = row.Number(0, 6),
               .approvals_pending = row.Number(0, 1),
               .flows_open = row.Number(0, 2),
               .flows_breaking = row.Number(0, 3),
               .flows_parked = row.Number(0, 4),
               .flows_stopped = row.Number(0, 8),
               .oldest_unknown_ms = row.Int(0, 5),
               .flows_parked_since_ms = row.Int(0, 9),
               .restored = row.Int(0, 7) != 0};
  }
  const auto number = [&](const PgStatement& statement, const PgArguments& arguments,
                          std::atomic<std::uint64_t>& known) {
    const auto asked = reader_.Ask(statement, arguments);
    if (asked) known = asked->front().Number(0, 0);
  };
  number(kOrphans, PgArguments().Bytes(group_), orphaned_work_);
  number(kStandbys, {}, asynchronous_standbys_);
}

void PgGroupCounter::AddTo(LedgerStats& stats) {
  std::unique_lock lock(mutex_);
  LookSoon(lock);
  stats.is_away = !answers_ || (told_ < asked_ && PgNow() - began_ >= kCountSilence);
  if (!counts_) return;
  stats.counted_ms = counts_->at_ms;
  stats.uncertain = counts_->uncertain;
  stats.approvals_pending = counts_->approvals_pending;
  stats.flows_open = counts_->flows_open;
  stats.flows_breaking = counts_->flows_breaking;
  stats.flows_parked = counts_->flows_parked;
  stats.flows_stopped = counts_->flows_stopped;
  stats.flows_parked_since_ms = counts_->flows_parked_since_ms;
  stats.used_bytes = counts_->used_bytes;
  stats.restored = counts_->restored;
  const std::int64_t unknown_ms = counts_->oldest_unknown_ms;
  if (unknown_ms != 0 && (stats.oldest_pending_ms == 0 || unknown_ms < stats.oldest_pending_ms)) {
    stats.oldest_pending_ms = unknown_ms;
  }
}

void PgGroupCounter::AddTo(SharedLedgerCounts& counts) const {
  counts.is_up = counts.is_up && answers_;
  counts.orphaned_work = orphaned_work_;
  counts.asynchronous_standbys = asynchronous_standbys_;
}

Result<EventPage> PgOperatorsLedger::List(const EventFilter& filter) {
  return ListPgEvents(reader_, of_.group, of_.keys, filter);
}

Result<std::optional<Event>> PgOperatorsLedger::Find(std::uint64_t id) {
  PgEventLog log(reader_, 0, of_.group);
  std::string bytes;
  const bool is_there = log.NewReader()->Read(id, bytes);
  return Whole<std::optional<Event>>(
      log, is_there ? FindEvent(log, of_.keys, id) : Result<std::optional<Event>>(std::nullopt));
}

Result<OperationPage> PgOperatorsLedger::Operations(const OperationFilter& filter) {
  return ListPgOperations(reader_, of_.group, of_.keys, filter);
}

Result<std::optional<FlowState>> PgOperatorsLedger::FindFlow(std::uint64_t number) {
  PgPlacedLog log(reader_, of_.group);
  return Whole(log, recourse::FindFlow(log, number, ToUnixMillis(GroupClock().WallNow())));
}

Result<std::vector<FlowState>> PgOperatorsLedger::NewestFlows(std::size_t limit) {
  PgPlacedLog log(reader_, of_.group);
  return Whole(log, recourse::NewestFlows(log, limit, ToUnixMillis(GroupClock().WallNow())));
}

std::expected<void, std::string> PgOperatorsLedger::AcceptRestoredBackup() {
  auto connection = PgConnection::Open(of_.connection);
  if (!connection) return std::unexpected(connection.error().why);
  const auto accepted = AcceptPgRestored(**connection, of_.group, {});
  if (!accepted) return std::unexpected(accepted.error().why);
  return {};
}

std::expected<std::unique_ptr<LedgerCopy>, std::string> PgOperatorsLedger::StartCopy() {
  return std::unexpected(
      "this ledger is in a database, which is what to back up: pg_basebackup with archived WAL, or "
      "pg_dump");
}

Result<std::vector<LedgerStream>> PgOperatorsLedger::Streams() {
  const auto answered = reader_.Ask(kStreamsToShow, PgArguments().Bytes(of_.group));
  if (!answered) return std::unexpected(PgAway());
  std::vector<LedgerStream> streams;
  const PgRows& rows = answered->front();
  for (int row = 0; row < rows.size(); ++row) {
    streams.push_back({.stream = rows.Number(row, 0),
                       .pod = std::string(rows.Bytes(row, 1)),
                       .state = std::string(ShownState(static_cast<StreamState>(rows.Int(row, 2)),
                                                       rows.Int(row, 5))),
                       .policy = std::string(rows.Bytes(row, 6)),
                       .rows = rows.Number(row, 3),
                       .running = rows.Number(row, 4),
                       .silent_s = rows.Int(row, 5)});
  }
  return streams;
}

Result<KeptRows> PgOperatorsLedger::Kept(const LedgerRule& rule) {
  auto kept = ReadPgKeptRows(reader_, of_.group, rule);
  if (!kept) return std::unexpected(PgAway());
  return std::move(*kept);
}

std::string PgOperatorsLedger::PodOf(std::uint64_t stream) {
  const auto answered = reader_.Ask(kPodOf, PgArguments().Bytes(of_.group).Int(AsInt(stream)));
  const bool is_known = answered && answered->front().size() == 1;
  return is_known ? std::string(answered->front().Bytes(0, 0)) : std::string();
}

}  // namespace recourse
