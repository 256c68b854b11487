#include "filters/ledger/postgres/operators_ledger.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/pg_values.h"
#include "filters/ledger/postgres/placed_log.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/postgres/waits.h"
#include "filters/ledger/queries/flow_queries.h"
#include "filters/ledger/queries/log_queries.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/limits.h"

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
constexpr PgStatement kPolicyInForce{
    "policy_in_force",
    "UPDATE stream SET policy = $2::uuid"
    " WHERE stream = $1::bigint AND policy IS DISTINCT FROM $2::uuid"};
constexpr PgStatement kFindPolicy{"shared_policy",
                                  "SELECT bytes FROM policy WHERE digest = $1::uuid"
                                  " AND grp = $2::text"};
// Live processes show a sign of life every minute. Of those that began last some have ended.
constexpr PgStatement kPoliciesOfGroup{
    "policies_of_group",
    "SELECT p.version, s.is_live FROM ("
    "(SELECT policy, true AS is_live, stream FROM stream WHERE grp = $1::text AND state < 3"
    " AND at > now() - interval '3 minutes')"
    " UNION ALL (SELECT policy, false, stream FROM stream WHERE grp = $1::text"
    " AND stream BETWEEN $2::bigint - 512 AND $2::bigint ORDER BY stream DESC LIMIT 16)) AS s"
    " JOIN policy p ON p.digest = s.policy ORDER BY s.stream DESC"};

// What was read of a log, if the database answered all the time.
template <class Value>
Result<Value> Whole(const PgPlacedLog& log, Result<Value> read) {
  if (log.is_away()) return std::unexpected(PgAway());
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

Result<void> PgSharedPolicies::NoteInForce(const std::string& version, std::uint64_t stream) {
  const auto noted =
      reader_.Ask(kPolicyInForce, PgArguments().Int(AsInt(stream)).Uuid(NameOf(version)));
  if (!noted) return std::unexpected(PgAway());
  return {};
}

Result<void> PgSharedPolicies::Share(const std::string& version, std::string_view packed,
                                     std::uint64_t stream) {
  const auto shared = reader_.Ask(
      kSharePolicy, PgArguments().Uuid(NameOf(version)).Bytes(group_).Bytes(version).Bytes(packed));
  if (!shared) return std::unexpected(PgAway());
  {
    const std::lock_guard lock(mutex_);
    version_ = version;
  }
  return NoteInForce(version, stream);
}

Result<std::optional<std::string>> PgSharedPolicies::Find(const std::string& version) {
  const auto found = reader_.Ask(kFindPolicy, PgArguments().Uuid(NameOf(version)).Bytes(group_));
  if (!found) return std::unexpected(PgAway());
  if (found->front().size() == 0) return std::nullopt;
  return std::string(found->front().Bytes(0, 0));
}

Result<SharedLedgerView::Versions> PgSharedPolicies::OfGroup(std::uint64_t own) {
  std::string version;
  {
    const std::lock_guard lock(mutex_);
    version = version_;
  }
  if (!version.empty()) {
    if (const auto noted = NoteInForce(version, own); !noted) {
      return std::unexpected(noted.error());
    }
  }
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

Result<EventPage> PgOperatorsLedger::List(const EventFilter& filter) {
  PgPlacedLog log(reader_, of_.group);
  return Whole(log, ListEvents(log, of_.keys, filter));
}

Result<std::optional<Event>> PgOperatorsLedger::Find(std::uint64_t id) {
  PgEventLog log(reader_, 0, of_.group);
  std::string bytes;
  if (!log.NewReader()->Read(id, bytes)) {
    // Either there is none, or the database does not answer.
    const auto end = NewsEnd();
    if (!end) return std::unexpected(end.error());
    return std::nullopt;
  }
  return FindEvent(log, of_.keys, id);
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
  if (!connection) return std::unexpected(connection.error());
  const auto accepted = AcceptPgRestored(**connection, of_.group, {});
  if (!accepted) return std::unexpected(accepted.error());
  return {};
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
