#include "filters/ledger/postgres/upkeep/keeper.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/batch_sql.h"
#include "filters/ledger/postgres/stored.h"
#include "filters/ledger/postgres/upkeep/old_rows.h"
#include "proxy/base/lease_limits.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

// A turn takes at most so much.
constexpr std::int64_t kKeeperStreams = 16, kKeeperRows = 256, kKeeperTombstones = 1'024,
                       kKeeperFlows = 256;

constexpr PgStatement kMayKeep{"may_keep", "SELECT has_table_privilege('event', 'DELETE')"};
constexpr PgStatement kKeeperBegin{"keeper_begin", "BEGIN"};
constexpr PgStatement kPutTurn{"put_turn",
                               "INSERT INTO work (kind, stream, number, grp) VALUES"
                               " (4, 0, $1::bigint, $2::text) ON CONFLICT DO NOTHING"};
// Held until the turn ends.
constexpr PgStatement kTakeTurn{
    "take_turn",
    "SELECT (extract(epoch FROM now()) * 1000)::bigint FROM work WHERE kind = 4 AND stream = 0"
    " AND number = $1::bigint AND grp = $2::text AND due_at <= now() FOR UPDATE SKIP LOCKED"};
constexpr PgStatement kEndTurn{
    "end_turn",
    "UPDATE work SET due_at = now() + $2::bigint * interval '1 ms' WHERE kind = 4 AND stream = 0"
    " AND number = $1::bigint AND grp = $3::text"};
// Its steps are then those of no flow, and the next one begins another flow of that name.
constexpr PgStatement kDropIdleFlows{
    "drop_idle_flows",
    "DELETE FROM flow d USING (SELECT f.grp, f.flow FROM flow f WHERE f.grp = $1::text"
    " AND f.phase = 1 AND NOT f.has_deadline AND f.at < now() - $2::bigint * interval '1 ms'"
    " AND NOT EXISTS (SELECT 1 FROM operation o WHERE o.flow = f.flow AND " PG_IN_GROUP(
        "o.grp", "f.grp") " AND o.phase = ANY($3::bigint[])) LIMIT $4::bigint) AS p"
    " WHERE d.grp = p.grp AND d.flow = p.flow"};
constexpr PgStatement kOldStreams{
    "old_streams",
    "SELECT s.stream FROM stream s JOIN event e ON e.stream = s.stream AND e.number = s.base + 1"
    " WHERE s.grp = $1::text AND s.base + 1 < s.head AND s.stream >= $2::bigint AND s.state <> 4"
    " AND e.at < now() - $3::bigint * interval '1 ms' ORDER BY s.stream LIMIT $4::bigint"};
constexpr PgStatement kOldRows{
    "old_rows",
    "SELECT e.number, e.bytes, e.place FROM stream s JOIN event e ON e.stream = s.stream"
    " AND e.number > s.base AND e.number < s.head WHERE s.stream = $1::bigint"
    " AND e.at < now() - $2::bigint * interval '1 ms' ORDER BY e.number LIMIT $3::bigint"};
constexpr PgStatement kEndOperations{
    "end_operations",
    "UPDATE operation o SET flags = 4, phase = p.phase::smallint, version = o.version + 1,"
    " flow = NULL, at = now()"
    " FROM (SELECT *, $4::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS q(key, version, phase)" PG_ONE_BY_ONE
    " WHERE o.grp = p.grp AND o.key = p.key AND o.version = p.version RETURNING 1"};
constexpr PgStatement kForgetOperations{
    "forget_operations",
    "DELETE FROM operation o USING (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(key, version)" PG_ONE_BY_ONE
    " WHERE o.grp = p.grp AND o.key = p.key AND o.version = p.version RETURNING 1"};
constexpr PgStatement kForgetMoved{
    "forget_moved", "DELETE FROM moved WHERE key = ANY($1::uuid[]) AND grp = $2::text"};
constexpr PgStatement kForgetFlows{
    "forget_flows",
    "DELETE FROM flow f USING (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(flow, version)" PG_ONE_BY_ONE
    " WHERE f.grp = p.grp AND f.flow = p.flow AND f.version = p.version RETURNING 1"};
constexpr PgStatement kForgetIntents{
    "forget_intents",
    "DELETE FROM intent i USING (SELECT *, $3::text AS grp"
    " FROM unnest($1::uuid[], $2::bigint[]) AS q(intent, id)" PG_ONE_BY_ONE
    " WHERE i.grp = p.grp AND i.intent = p.intent AND i.stream = p.id >> 36 AND i.number = p.id "
    "& 68719476735"};
constexpr PgStatement kForgetLinks{"forget_links",
                                   "DELETE FROM intent i USING (SELECT *, $2::text AS grp"
                                   " FROM unnest($1::uuid[]) AS q(intent)" PG_ONE_BY_ONE
                                   " WHERE i.grp = p.grp AND i.intent = p.intent"};
constexpr PgStatement kMoveBase{
    "move_base",
    "UPDATE stream SET base = $2::bigint, base_chain = $3::bytea WHERE stream = $1::bigint"};
// How far it has come, and up to which base: nothing that began behind this place has left. (An
// imported stream is number 0, as the turn.)
constexpr PgStatement kDropKept{
    "drop_kept",
    "DELETE FROM work WHERE kind = 4 AND stream = $1::bigint AND stream > 0 AND grp = $2::text"};
constexpr PgStatement kPutKept{
    "put_kept",
    "INSERT INTO work (kind, stream, number, grp, policy, due_at)"
    " SELECT 4, $1::bigint, $2::bigint, $3::text, $4::bigint::text, now() + interval '100 years'"
    " WHERE $1::bigint > 0"};
constexpr PgStatement kDropRows{
    "drop_rows", "DELETE FROM event WHERE stream = $1::bigint AND number <= $2::bigint"};
// Keys with generations name each other by more than the table has of them: these stay.
constexpr PgStatement kSweepTombstones{
    "sweep_tombstones",
    "WITH part AS (SELECT grp, key FROM operation WHERE grp = $4::text AND key > $1::uuid"
    "  ORDER BY key LIMIT $3::bigint),"
    " gone AS (DELETE FROM operation o USING part p WHERE o.grp = p.grp AND o.key = p.key"
    " AND o.flags & 4 <> 0"
    " AND o.generation = 0 AND o.newest_generation = 0"
    " AND o.at < now() - $2::bigint * interval '1 ms' RETURNING 1)"
    " SELECT count(*), (SELECT count(*) FROM gone),"
    " (SELECT key FROM part ORDER BY key DESC LIMIT 1) FROM part"};

// Two arrays, of keys and of what belongs to each.
struct KeyedNumbers {
  PgArray keys{PgArray::Of::kUuid}, values{PgArray::Of::kInt};
  void Add(const Uuid& key, std::int64_t value) {
    keys.Uuid(DigestOfUuid(key));
    values.Int(value);
  }
  PgArguments Arguments() const {
    PgArguments arguments;
    keys.AppendTo(arguments);
    values.AppendTo(arguments);
    return arguments;
  }
};

std::int64_t TurnOf(std::string_view group) {
  const Digest digest = Sha256(group);
  std::int32_t number = 0;
  std::memcpy(&number, digest.data(), sizeof number);
  return number & 0x7fffffff;
}

PgArguments OpenPhases(const std::string& group, std::int64_t idle_ms) {
  PgArray open(PgArray::Of::kInt);
  for (int phase = 0; phase < kPhaseCount; ++phase) {
    if (!IsFinal(static_cast<Phase>(phase))) open.Int(phase);
  }
  PgArguments arguments;
  arguments.Bytes(group).Int(idle_ms);
  open.AppendTo(arguments);
  arguments.Int(kKeeperFlows);
  return arguments;
}

// The first answers have so many rows, as nobody has changed one in between.
bool AreAll(const std::vector<PgRows>& answers, const std::vector<std::int32_t>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (answers.at(i).size() != counts[i]) return false;
  }
  return true;
}

}  // namespace

PgKeeper::PgKeeper(Of of)
    : of_(std::move(of)),
      turn_(TurnOf(of_.group)),
      local_{.clock = of_.clock, .opener = RowDecryptor(of_.keys)} {}

PgKeeper::Asked PgKeeper::Ask(const PgStatement& statement, const PgArguments& arguments) {
  connection_->Queue(statement, arguments);
  auto answered = connection_->Run();
  if (!answered) return std::unexpected(answered.error().text);
  return std::move(answered->front());
}

std::expected<void, std::string> PgKeeper::Connect() {
  if (connection_ != nullptr && !connection_->is_lost()) return {};
  auto opened = PgConnection::Open(of_.connection);
  if (!opened) return std::unexpected(opened.error().why);
  connection_ = std::move(*opened);
  const auto may = Ask(kMayKeep);
  if (!may) return std::unexpected(may.error());
  may_keep_ = may->Int(0, 0) != 0;
  return {};
}

// Begins the transaction; false: it is another one's turn, or nobody's yet.
std::expected<bool, std::string> PgKeeper::Claim() {
  if (auto put = Ask(kPutTurn, PgArguments().Int(turn_).Bytes(of_.group)); !put) {
    return std::unexpected(put.error());
  }
  connection_->Queue(kKeeperBegin);
  connection_->Queue(kTakeTurn, PgArguments().Int(turn_).Bytes(of_.group));
  const auto taken = connection_->Run();
  if (!taken) return std::unexpected(taken.error().text);
  if (taken->back().size() == 0) return false;
  now_ms_ = taken->back().Int(0, 0);
  CompareClocks();
  local_.group_clock.Measure(WallTime(Millis(now_ms_)), local_.clock.Now());
  return true;
}

void PgKeeper::CompareClocks() {
  if (of_.second_clock == nullptr) return;
  const Millis ahead(now_ms_ - ToUnixMillis(of_.second_clock->WallNow()));
  ahead_ = std::max(ahead, Millis(0));
  const bool is_far = ahead_ > limits::kClockJumpTold;
  if (is_far && !is_ahead_told_) {
    Log(LogLevel::kWarn,
        "the clock of the ledger's database is ahead of this process's: old rows leave so much "
        "later",
        {{"milliseconds", std::to_string(ahead_.count())}});
  }
  is_ahead_told_ = is_far;
}

std::expected<PgKeeper::Done, std::string> PgKeeper::Turn(const LedgerRule& rule, Millis every) {
  if (auto connected = Connect(); !connected) {
    connection_.reset();
    return std::unexpected(connected.error());
  }
  if (!may_keep_) return Done();
  auto claimed = Claim();
  if (!claimed) {
    connection_.reset();
    return std::unexpected(claimed.error());
  }
  auto done = *claimed ? Keep(rule) : std::expected<Done, std::string>(Done());
  if (!done) {
    connection_.reset();  // nothing of it happens
    return done;
  }
  if (*claimed) {
    connection_->Queue(
        kEndTurn, PgArguments().Int(turn_).Int(done->more ? 0 : every.count()).Bytes(of_.group));
  }
  connection_->Queue(kPgCommit);
  if (auto ended = connection_->Run(); !ended) return std::unexpected(ended.error().text);
  return done;
}

std::expected<PgKeeper::Done, std::string> PgKeeper::Keep(const LedgerRule& said) {
  Done done;
  LedgerRule rule = said;
  rule.retention += ahead_;
  rule.tombstones += ahead_;
  const Millis idle = std::min<Millis>(said.retention, limits::kFlowIdle) + ahead_;
  if (auto dropped = Ask(kDropIdleFlows, OpenPhases(of_.group, idle.count())); !dropped) {
    return std::unexpected(dropped.error());
  }
  const auto streams = Ask(kOldStreams, PgArguments()
                                            .Bytes(of_.group)
                                            .Int(AsInt(next_stream_))
                                            .Int(rule.retention.count())
                                            .Int(kKeeperStreams));
  if (!streams) return std::unexpected(streams.error());
  for (int row = 0; row < streams->size(); ++row) {
    const auto rows = Trim(streams->Number(row, 0), rule);
    if (!rows) return std::unexpected(rows.error());
    done.rows += *rows;
  }
  const bool has_more_streams = streams->size() == kKeeperStreams;
  next_stream_ = has_more_streams ? streams->Number(streams->size() - 1, 0) + 1 : 0;
  const auto swept = Sweep(rule);
  if (!swept) return std::unexpected(swept.error());
  done.tombstones = *swept;
  done.more = done.rows > 0 || has_more_streams || next_key_.has_value();
  return done;
}

std::expected<std::size_t, std::string> PgKeeper::Trim(std::uint64_t stream,
                                                       const LedgerRule& rule) {
  const auto found =
      Ask(kOldRows, PgArguments().Int(AsInt(stream)).Int(rule.retention.count()).Int(kKeeperRows));
  if (!found) return std::unexpected(found.error());
  std::vector<OldRow> rows;
  for (int row = 0; row < found->size(); ++row) {
    const std::uint64_t number = found->Number(row, 0);
    if (row > 0 && number != found->Number(row - 1, 0) + 1) break;
    rows.push_back({PackRowId({static_cast<std::uint32_t>(stream), number}),
                    std::string(found->Bytes(row, 1))});
  }
  OldRowsJudge judge({*connection_, of_.group, now_ms_ - rule.retention.count()}, local_);
  const auto old = judge.Judge(rows);
  if (!old) return std::unexpected(old.error());
  if (old->count == 0) return 0;
  KeyedNumbers ended, forgotten, flows, intents;
  PgArray phases(PgArray::Of::kInt), links(PgArray::Of::kUuid), gone(PgArray::Of::kUuid);
  for (const auto& [key, leaves] : old->operations) {
    (leaves.is_forgotten ? forgotten : ended).Add(key, leaves.version);
    gone.Uuid(DigestOfUuid(key));
    if (!leaves.is_forgotten) phases.Int(static_cast<std::int64_t>(leaves.phase));
  }
  for (const auto& [key, version] : old->flows) flows.Add(key, version);
  for (const auto& [intent, id] : old->intents) intents.Add(intent, AsInt(id));
  for (const Uuid& link : old->links) links.Uuid(DigestOfUuid(link));
  PgArguments ends = ended.Arguments(), unlinks, left;
  phases.AppendTo(ends);
  ends.Bytes(of_.group);
  gone.AppendTo(left);
  left.Bytes(of_.group);
  links.AppendTo(unlinks);
  unlinks.Bytes(of_.group);
  connection_->Queue(kEndOperations, ends);
  connection_->Queue(kForgetOperations, forgotten.Arguments().Bytes(of_.group));
  connection_->Queue(kForgetFlows, flows.Arguments().Bytes(of_.group));
  connection_->Queue(kForgetMoved, left);
  connection_->Queue(kForgetIntents, intents.Arguments().Bytes(of_.group));
  connection_->Queue(kForgetLinks, unlinks);
  const std::uint64_t last = UnpackRowId(rows[old->count - 1].id).number;
  connection_->Queue(kMoveBase,
                     PgArguments().Int(AsInt(stream)).Int(AsInt(last)).Bytes(AsView(old->chain)));
  connection_->Queue(kDropKept, PgArguments().Int(AsInt(stream)).Bytes(of_.group));
  connection_->Queue(kPutKept, PgArguments()
                                   .Int(AsInt(stream))
                                   .Int(found->Int(static_cast<int>(old->count) - 1, 2))
                                   .Bytes(of_.group)
                                   .Int(AsInt(last)));
  connection_->Queue(kDropRows, PgArguments().Int(AsInt(stream)).Int(AsInt(last)));
  const auto written = connection_->Run();
  if (!written) return std::unexpected(written.error().text);
  if (!AreAll(*written, {ended.keys.size(), forgotten.keys.size(), flows.keys.size()})) {
    return std::unexpected("a row has been changed in between, so that this turn is given up");
  }
  return old->count;
}

std::expected<std::size_t, std::string> PgKeeper::Sweep(const LedgerRule& rule) {
  const auto swept = Ask(kSweepTombstones, PgArguments()
                                               .Uuid(next_key_.value_or(Digest{}))
                                               .Int(rule.tombstones.count())
                                               .Int(kKeeperTombstones)
                                               .Bytes(of_.group));
  if (!swept) return std::unexpected(swept.error());
  const bool has_more = swept->Int(0, 0) == kKeeperTombstones;
  next_key_ = has_more ? std::optional(swept->Uuid(0, 2)) : std::nullopt;
  return static_cast<std::size_t>(swept->Int(0, 1));
}

}  // namespace recourse
