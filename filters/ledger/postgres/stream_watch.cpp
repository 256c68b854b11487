#include "filters/ledger/postgres/stream_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/rules/record_outcome.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

// How many live; beside it each that has something open, or was declared dead, and where the asking
// one's ends.
#define PG_STREAMS                                                                \
  "SELECT n.live, s.stream, s.state::bigint, coalesce(s.taken_by, 0),"            \
  " coalesce(t.state, 3)::bigint,"                                                \
  " o.head, s.beat, o.chain"                                                      \
  " FROM (SELECT count(*) AS live FROM stream WHERE grp = $1::text AND state = 1" \
  "  AND at > now() - interval '3 minutes') AS n"                                 \
  " LEFT JOIN stream o ON o.stream = $2::bigint"                                  \
  " LEFT JOIN stream s ON s.grp = $1::text AND s.state < 3 AND (s.state = 2 OR s.open > 0)"
#define PG_TAKERS " LEFT JOIN stream t ON t.stream = s.taken_by"
constexpr PgStatement kStreamsOfGroup{"streams", PG_STREAMS PG_TAKERS};
// Who observes settles, undoes and sends nothing: what waits for that is not his to keep from those
// who do. Bit 16 of an event's flags says that it was observed.
constexpr PgStatement kObservedStreams{
    "observed_streams", PG_STREAMS
    " AND NOT EXISTS (SELECT 1 FROM work w WHERE w.owner = s.stream AND w.kind < 4)"
    " AND NOT EXISTS (SELECT 1 FROM event e WHERE e.stream = s.stream AND e.number >= s.low"
    "  AND e.number <= s.head AND e.won"
    // Rows of other kinds are shorter.
    "  AND CASE WHEN e.phase = 5 THEN get_byte(e.bytes, 88) & 16 = 0 ELSE false END)" PG_TAKERS};
#undef PG_STREAMS
#undef PG_TAKERS
constexpr PgStatement kBeats{
    "beats",
    "SELECT stream, beat, open FROM stream WHERE stream = ANY($1::bigint[]) AND state = 1"};
// A database that answers questions may still confirm nothing: with it who asks knows that others
// could have written.
constexpr PgStatement kProve{"prove",
                             "UPDATE stream SET at = greatest(at, now()) WHERE stream = $1::bigint"
                             " AND state = 1"};
constexpr int kUnchangedMax = 3;  // answers in turn, until that has to be known
constexpr PgStatement kDeclare{
    "declare",
    "UPDATE stream SET state = 2, taken_by = $3::bigint"
    " WHERE stream = $1::bigint AND state = 1 AND beat = $2::bigint RETURNING 1"};
constexpr PgStatement kAdopt{
    "adopt",
    "UPDATE stream SET taken_by = $3::bigint"
    " WHERE stream = $1::bigint AND state = 2 AND coalesce(taken_by, 0) = $2::bigint RETURNING 1"};
// `low` bounds the scan: no row before it says that anything is still sent. Another process may
// have written the last row of what is: a word that came too late.
constexpr PgStatement kLeftRunning{
    "left_running",
    "SELECT e.op_stream, e.op_number, o.attempt::bigint FROM event e"
    " JOIN operation o ON o.grp = e.grp AND o.key = e.key AND o.op_stream = e.op_stream AND "
    "o.op_number = e.op_number"
    " WHERE e.stream = $1::bigint AND e.number >="
    " (SELECT low FROM stream WHERE stream = $1::bigint)"
    " AND e.won AND e.phase = 5 AND o.phase = 5 AND o.sender = $1::bigint"
    " GROUP BY e.op_stream, e.op_number, o.attempt ORDER BY min(e.number) LIMIT $2::bigint"};
// With it its own row says that there is some, or nobody would look when this process dies before
// its next batch; and whoever takes it over has not looked yet.
constexpr PgStatement kTakeWork{
    "take_work",
    "WITH own AS (UPDATE stream SET open = greatest(open, 1) WHERE stream = $2::bigint"
    " AND state = 1 RETURNING 1)"
    " UPDATE work SET owner = $2::bigint, due_at = now() WHERE owner = $1::bigint AND EXISTS"
    " (SELECT 1 FROM own) RETURNING 1"};
constexpr PgStatement kLeftBehind{"left_behind",
                                  "SELECT pod, head, chain FROM stream WHERE stream = $1::bigint"};
constexpr PgStatement kEndStream{
    "end_stream",
    "UPDATE stream SET state = 3, open = 0 WHERE stream = $1::bigint AND state = 2"
    " AND taken_by = $2::bigint RETURNING 1"};
constexpr std::int64_t kTakenAtOnceMax = 256;
// What is sealed with a key that this process lacks is left to one that has it.
constexpr PgStatement kGiveBack{"give_back",
                                "UPDATE stream SET taken_by = NULL WHERE stream = $1::bigint"
                                " AND state = 2 AND taken_by = $2::bigint"};
constexpr int kListsUntilTriedAgain = 60;

// How soon a process that was fenced, or could not connect, is looked at again.
constexpr Millis kStreamAwaited{100};

}  // namespace

Result<PgRows> PgStreamTable::Ask(const PgStatement& statement, const PgArguments& arguments,
                                  bool proves) {
  static constexpr std::string_view kCannotAsk =
      "the ledger's database cannot be asked about streams";
  if (connection_ == nullptr || connection_->is_lost()) {
    auto opened = PgConnection::Open(parts_.connection);
    if (!opened) return std::unexpected(Error(ErrorCode::kLedgerUnavailable, kCannotAsk));
    connection_ = std::move(*opened);
  }
  if (proves) connection_->Queue(kProve, PgArguments().Int(AsInt(parts_.own)));
  connection_->Queue(statement, arguments);
  auto answered = connection_->Run();
  if (answered) return std::move(answered->back());
  if (answered.error().kind == PgFailure::Kind::kRefused) {
    Log(LogLevel::kError, "the ledger's database refuses to tell of streams",
        {{"sqlstate", answered.error().sqlstate}, {"reason", answered.error().text}});
  }
  connection_.reset();
  return std::unexpected(Error(ErrorCode::kLedgerUnavailable, kCannotAsk));
}

Result<StreamTable::Listed> PgStreamTable::List() {
  const Parts::LastRow own = parts_.acknowledged ? parts_.acknowledged() : Parts::LastRow();
  const auto rows = Ask(parts_.observes ? kObservedStreams : kStreamsOfGroup,
                        PgArguments().Bytes(parts_.group).Int(UnpackRowId(own.id).stream),
                        std::ranges::any_of(listed_, IsUnchanged));
  if (!rows) return std::unexpected(rows.error());
  Listed listed;
  for (int row = 0; row < rows->size(); ++row) {
    listed.processes = rows->Number(row, 0);
    if (rows->IsNull(row, 1)) continue;
    const std::uint64_t stream = rows->Number(row, 1), taken_by = rows->Number(row, 3);
    if (rows->Int(row, 2) == 1) {
      listed.open.push_back({stream, rows->Number(row, 6), true});
    } else if (const auto left = left_.find(stream); left != left_.end() && --left->second > 0) {
      continue;
    } else if (taken_by == parts_.own || rows->Int(row, 4) != 1) {
      listed.abandoned.push_back({stream, taken_by});
    }
  }
  if (parts_.behind) {
    const auto end_of = [](const Parts::LastRow& row) { return StreamEndOf(row.id, row.hash); };
    const bool is_gone =
        SeemsGone(end_of(own), StreamEndIn(*rows, 5, 7), end_of(parts_.acknowledged()));
    if (is_gone) parts_.behind();
  }
  listed_ = SeenAfter(listed_, listed.open);
  return listed;
}

Result<std::vector<Watch::Beat>> PgStreamTable::Beats(std::span<const std::uint64_t> streams) {
  PgArray asked(PgArray::Of::kInt);
  for (const std::uint64_t stream : streams) asked.Int(AsInt(stream));
  PgArguments arguments;
  asked.AppendTo(arguments);
  const auto rows = Ask(kBeats, arguments, std::ranges::any_of(watched_, IsUnchanged));
  if (!rows) return std::unexpected(rows.error());
  std::vector<Watch::Beat> beats;
  for (int row = 0; row < rows->size(); ++row) {
    beats.push_back({rows->Number(row, 0), rows->Number(row, 1), rows->Int(row, 2) > 0});
  }
  watched_ = SeenAfter(watched_, beats);
  return beats;
}

bool PgStreamTable::IsUnchanged(const std::pair<const std::uint64_t, Seen>& one) {
  return one.second.times >= kUnchangedMax;
}

PgStreamTable::SeenStreams PgStreamTable::SeenAfter(const SeenStreams& before,
                                                    std::span<const Watch::Beat> beats) {
  SeenStreams seen;
  for (const auto& [stream, beat, has_open] : beats) {
    const auto known = before.find(stream);
    const bool is_same = known != before.end() && known->second.beat == beat && has_open;
    seen[stream] = {beat, is_same ? known->second.times + 1 : 0};
  }
  return seen;
}

Result<void> PgStreamTable::TellWentBack(Watch::Silent seen) {
  const auto lost = std::unexpected(Error(ErrorCode::kLedgerUnavailable,
                                          "the ledger's database cannot be told that it is older"));
  if (connection_ == nullptr || connection_->is_lost()) return lost;
  if (TellPgWentBack(*connection_, parts_.group, seen)) return {};
  connection_.reset();
  return lost;
}

Result<bool> PgStreamTable::Declare(Watch::Silent silent) {
  const auto rows =
      Ask(kDeclare,
          PgArguments().Int(AsInt(silent.stream)).Int(AsInt(silent.beat)).Int(AsInt(parts_.own)));
  if (!rows) return std::unexpected(rows.error());
  if (rows->size() == 1) {
    Log(LogLevel::kWarn, "a process of the group is silent, and is taken over",
        {{"stream", std::to_string(silent.stream)}});
  }
  return rows->size() == 1;
}

Result<bool> PgStreamTable::Adopt(Abandoned abandoned) {
  const auto rows = Ask(kAdopt, PgArguments()
                                    .Int(AsInt(abandoned.stream))
                                    .Int(AsInt(abandoned.taken_by))
                                    .Int(AsInt(parts_.own)));
  if (!rows) return std::unexpected(rows.error());
  return rows->size() == 1;
}

// Nothing is sent because of it: what was running is unknown, and goes the way of all that is.
Result<bool> PgStreamTable::TakeOverSome(std::uint64_t stream) {
  RC_CRASH_POINT("f3");
  const auto running = Ask(kLeftRunning, PgArguments().Int(AsInt(stream)).Int(kTakenAtOnceMax));
  if (!running) return std::unexpected(running.error());
  if (running->size() > 0) {
    std::vector<Transition> moves;
    for (int row = 0; row < running->size(); ++row) {
      Transition& move = moves.emplace_back();
      move.operation =
          PackRowId({static_cast<std::uint32_t>(running->Int(row, 0)), running->Number(row, 1)});
      move.attempt = static_cast<std::uint16_t>(running->Int(row, 2));
      move.cause = Cause::kOwnerLost;
      move.detail = "the process that was sending it was lost before the outcome was known";
    }
    const std::size_t count = moves.size();
    if (auto done = parts_.record(std::move(moves)); !done) {
      if (IsSealedError(done.error())) return LeaveSealed(stream);
      return std::unexpected(done.error());
    }
    unknown_[stream] += count;
    RC_CRASH_POINT("f3");
    return false;
  }
  const auto taken = Ask(kTakeWork, PgArguments().Int(AsInt(stream)).Int(AsInt(parts_.own)));
  if (!taken) return std::unexpected(taken.error());
  RC_CRASH_POINT("f3");
  if (auto told = TellEnd(stream, static_cast<std::size_t>(taken->size())); !told) {
    return std::unexpected(told.error());
  }
  RC_CRASH_POINT("f3");
  const auto ended = Ask(kEndStream, PgArguments().Int(AsInt(stream)).Int(AsInt(parts_.own)));
  if (!ended) return std::unexpected(ended.error());
  return true;
}

// Nothing else waits for it: neither what waits there, nor other dead processes.
Result<bool> PgStreamTable::LeaveSealed(std::uint64_t stream) {
  Log(LogLevel::kError,
      "calls of a dead process are sealed with a key that this one lacks; they stay unknown until "
      "one that has it takes them over",
      {{"stream", std::to_string(stream)}, {"do", "give every pod of the group all its keys"}});
  left_[stream] = kListsUntilTriedAgain;
  const PgArguments both = PgArguments().Int(AsInt(stream)).Int(AsInt(parts_.own));
  for (const PgStatement& statement : {kTakeWork, kGiveBack}) {
    if (auto done = Ask(statement, both); !done) return std::unexpected(done.error());
  }
  return true;
}

// A row of this process's chain: that of the dead one cannot be cut behind it.
Result<void> PgStreamTable::TellEnd(std::uint64_t stream, std::size_t waiting) {
  const auto left = Ask(kLeftBehind, PgArguments().Int(AsInt(stream)));
  if (!left) return std::unexpected(left.error());
  if (!parts_.note || left->size() != 1) return {};
  Digest chain{};
  const std::string_view hash = left->Bytes(0, 2);
  if (hash.size() == chain.size()) std::copy(hash.begin(), hash.end(), chain.begin());
  const std::uint64_t last = PackRowId({static_cast<std::uint32_t>(stream), left->Number(0, 1)});
  return parts_.note({.what = std::string(kTakeoverOrder),
                      .who = parts_.pod,
                      .reason = fmt::format(
                          "stream {} of {} is over: its last row is {} with hash {}; {} calls of "
                          "it became unknown, {} that wait go on here",
                          stream, left->Bytes(0, 0), PrintRowId(last), ToHex(chain),
                          std::exchange(unknown_[stream], 0), waiting),
                      .policy_version = {},
                      .policy = {}});
}

PgStreamWatch::~PgStreamWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PgStreamWatch::Start() {
  thread_ = std::thread([this] { Run(); });
}

// False: it is to end.
bool PgStreamWatch::WaitUntil(MonoTime when) {
  std::unique_lock lock(mutex_);
  const auto left = std::max(when - parts_.clock.Now(), MonoTime::duration::zero());
  return !wake_.wait_for(lock, left, [this] { return is_stopping_; });
}

// A process that was fenced goes on under another stream, and watches for that.
void PgStreamWatch::Run() {
  NameThread("recourse-watch");
  std::unique_ptr<PgStreamTable> table;
  std::unique_ptr<StreamKeeper> keeper;
  std::uint64_t own = 0;
  MonoTime next = parts_.clock.Now();
  while (WaitUntil(next)) {
    if (const std::uint64_t now = parts_.own(); now != own) {
      own = now;
      PgStreamTable::Parts of = parts_.table;
      of.own = own;
      keeper.reset();
      table = std::make_unique<PgStreamTable>(std::move(of));
      if (own != 0) {
        keeper = std::make_unique<StreamKeeper>(own, *table, parts_.clock, random_);
      }
    }
    if (keeper == nullptr) {
      next = parts_.clock.Now() + kStreamAwaited;
      continue;
    }
    const std::uint64_t before = keeper->takeovers();
    next = keeper->Step();
    parts_.taking(keeper->is_taking());
    takeovers_ += keeper->takeovers() - before;
    const std::uint64_t late = parts_.late ? parts_.late() : 0;
    const bool has_more = keeper->takeovers() != before || late != std::exchange(late_told_, late);
    if (has_more && parts_.took) parts_.took();
  }
}

}  // namespace recourse
