#include "filters/ledger/postgres/store.h"

#include <algorithm>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/batch_sql.h"
#include "filters/ledger/postgres/schema.h"
#include "filters/ledger/rows/event_log.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr const char* kOtherSecret =
    "the ledger in the database belongs to another install.secret: calls would be taken for "
    "others; all groups of a database have one, so name that with --install-secret-file, or give "
    "this group a database of its own";
constexpr const char* kBeingImported =
    "the ledger of a volume is imported for this group: when recourse ledger import has ended, "
    "start this process anew, which then knows the volume's agents by their names";

constexpr PgStatement kInstall{
    "install", "UPDATE ledger SET install_id = $1::text WHERE install_id = '' RETURNING 1"};
constexpr PgStatement kNewStream{"new_stream", "SELECT nextval('stream_number')"};
constexpr PgStatement kPutStream{
    "put_stream",
    "INSERT INTO stream (stream, grp, pod, version, head, chain, low, place, held, tables, policy,"
    " next_policy)"
    " SELECT $1::bigint, $2::text, $3::text, $4::text, 1, $5::bytea, 2, nextval('place') << 12,"
    " restored_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM secret s WHERE s.grp = $2::text"
    " AND s.accepted_at >= restored_at), $6::bigint::int,"
    // Of the stream before it.
    " (SELECT o.policy FROM stream o WHERE o.stream = $7::bigint AND o.grp = $2::text),"
    " (SELECT o.next_policy FROM stream o WHERE o.stream = $7::bigint AND o.grp = $2::text)"
    " FROM ledger FOR SHARE RETURNING held,"
    // The clock has gone back since one of them wrote.
    " CASE WHEN EXISTS (SELECT 1 FROM stream o WHERE o.grp = $2::text AND o.state < 3"
    " AND o.at > clock_timestamp() + interval '0.5 s') THEN place ELSE 0 END"};
constexpr PgStatement kPutSecret{
    "put_secret",
    "INSERT INTO secret (grp, is_shared) VALUES ($1::text, false) ON CONFLICT DO NOTHING"};
constexpr PgStatement kPutEpoch{
    "put_epoch",
    "INSERT INTO event (stream, number, day, place, won, kind, grp, at, bytes)"
    " SELECT stream, 1, (extract(epoch FROM now()) / 86400)::int, place, true, 3, grp, now(),"
    " $2::bytea FROM stream WHERE stream = $1::bigint"};
// Anybody's to take over: nobody would look after it if it were this one's, which has just begun.
constexpr PgStatement kSucceed{"succeed",
                               "UPDATE stream SET state = 2, taken_by = NULL"
                               " WHERE stream = $1::bigint AND state = 1 AND grp = $2::text"};
// How the agents are named hangs on it. While an import goes on nobody begins, and who began before
// it never begins again; behind kPutStream, as who imports holds what that shares.
constexpr PgStatement kImported{
    "imported",
    "SELECT count(*), 1 / (CASE WHEN count(*) FILTER (WHERE state = 4 OR $3::boolean) > 0"
    " THEN 0 ELSE 1 END), (SELECT is_shared FROM secret WHERE grp = $1::text)"
    " FROM stream WHERE grp = $1::text AND stream = $2::bigint"};
// Who dies with nothing open is missed by nobody, and its stream stays. One that lives after all
// begins another.
constexpr PgStatement kEndIdle{
    "end_idle",
    "UPDATE stream s SET state = 3 WHERE s.grp = $1::text AND s.state = 1 AND s.open = 0"
    " AND s.at < now() - interval '1 hour'"
    " AND NOT EXISTS (SELECT 1 FROM work w WHERE w.owner = s.stream)"};
constexpr PgStatement kFind{
    "find_stream",
    "SELECT state, head, chain, place FROM stream WHERE stream = $1::bigint FOR UPDATE"};

// A batch in doubt that is not there yet, as a server that hung may still have it before it, never
// happens from then on; and one that is there has been confirmed with this.
constexpr PgStatement kResolve{"resolve",
                               "UPDATE stream SET beat = beat + 1, at = CASE WHEN state = 1 THEN "
                               "greatest(at, now()) ELSE at END"
                               " WHERE stream = $1::bigint"
                               " RETURNING state, head, chain, place, beat"};

// Of kFind and kResolve; nullopt: the stream is not listed.
std::optional<StreamEnd> FoundEnd(const PgRows& found) {
  if (found.size() != 1) return std::nullopt;
  return StreamEndIn(found, 1, 2);
}

// Whether the stream ends as this process was told; if not, everybody is told. nullopt: the
// database is away.
std::optional<bool> LookForEnd(PgConnection& connection, const OwnEnd& own) {
  connection.Queue(kFind, PgArguments().Int(UnpackRowId(own.head).stream));
  const auto found = connection.Run();
  if (!found) return std::nullopt;
  const StreamEnd acknowledged = StreamEndOf(own.head, own.chain);
  if (JudgeEnd(acknowledged, nullptr, FoundEnd(found->front())) == EndFound::kAcknowledged) {
    return true;
  }
  return TellPgWentBack(connection, own) ? std::optional(false) : std::nullopt;
}

// Whoever lists the streams finds that of the process before as one to take over.
void TidyStreams(PgConnection& connection, const PgStoreOptions& options, const Digest& identity,
                 std::uint64_t stream) {
  const std::uint64_t before = options.begun ? options.begun(identity, stream) : 0;
  if (before != 0) {
    connection.Queue(kSucceed, PgArguments().Int(AsInt(before)).Bytes(options.group));
  }
  connection.Queue(kEndIdle, PgArguments().Bytes(options.group));
  (void)connection.Run();
}

void Shorten(Event& event) {
  if (event.detail.size() > limits::kDetailBytesMax) event.detail.resize(limits::kDetailBytesMax);
  if (event.request && !CanBeKept(*event.request)) {
    event.request.reset();
    event.request_left_out = true;
  }
}

}  // namespace

PgStore::PgStore(PgStoreOptions options, std::shared_ptr<const LedgerKeys> keys, LocalFacts& local)
    : options_(std::move(options)), local_(local) {
  if (keys != nullptr) sealer_.emplace(std::move(keys));
}

std::expected<void, Unopened> PgStore::Connect() {
  if (is_connected()) return {};
  connection_.reset();
  auto opened = PgConnection::Open(options_.connection);
  if (!opened) return std::unexpected(opened.error());
  const PgPurpose purpose{"pod", options_.group};
  const auto facts = ReadPgLedgerFacts(**opened, purpose);
  if (!facts) return std::unexpected(facts.error());
  if (identity_ != Digest{} && facts->identity != identity_) {
    return std::unexpected(Unopened{"another ledger is in the database by now"});
  }
  identity_ = facts->identity;
  if (facts->install_id.empty() && !options_.install_id.empty()) {
    (*opened)->Queue(kInstall, PgArguments().Bytes(options_.install_id));
    if (auto done = (*opened)->Run(); !done) {
      return std::unexpected(UnopenedBy(**opened, done.error(), purpose));
    }
  } else if (facts->install_id != options_.install_id) {
    return std::unexpected(Unopened{kOtherSecret});
  }
  const auto accepted_ms = ReadPgAcceptedMs(**opened, options_.group);
  if (!accepted_ms) return std::unexpected(UnopenedBy(**opened, accepted_ms.error(), purpose));
  connection_ = std::move(*opened);
  local_.accepted_ms = *accepted_ms;
  if (stream_ == 0) {
    auto begun = BeginStream();
    if (!begun) connection_.reset();  // without a stream it can do nothing
    return begun;
  }
  if (in_doubt_) return {};
  const auto is_there = LookForEnd(*connection_, {head_, written_place_, chain_, options_.group});
  if (!is_there) {
    connection_.reset();
    return std::unexpected(Unopened{"the ledger's database does not answer", true});
  }
  if (!*is_there) local_.is_restored = true;
  return {};
}

std::expected<void, Unopened> PgStore::BeginStream() {
  const PgPurpose purpose{"pod", options_.group};
  connection_->Queue(kNewStream);
  connection_->Queue(kPgNow);
  const MonoTime asked = local_.clock.Now();
  const auto numbered = connection_->Run();
  if (!numbered) return std::unexpected(UnopenedBy(*connection_, numbered.error(), purpose));
  const std::uint64_t stream = numbered->at(0).Number(0, 0);
  const bool is_own = options_.time == PgStoreOptions::Time::kProcess;
  local_.group_clock.Measure(
      is_own ? local_.clock.WallNow() : WallTime(Millis(numbered->at(1).Int(0, 0))), asked);
  local_.measured = local_.clock.Now();
  local_.is_measured = !is_own;
  const std::uint64_t first = PackRowId({static_cast<std::uint32_t>(stream), 1});
  std::string row;
  AppendEpochRow(row, {RowKind::kEpoch, first, 1, local_.WallMs(), Digest{}});
  const Digest chain = RowHash(row);
  connection_->Queue(kPutStream, PgArguments()
                                     .Int(AsInt(stream))
                                     .Bytes(options_.group)
                                     .Bytes(options_.pod)
                                     .Bytes(options_.version)
                                     .Bytes(AsView(chain))
                                     .Int(kPgSchemaVersion)
                                     .Int(AsInt(left_)));
  connection_->Queue(kPutSecret, PgArguments().Bytes(options_.group));
  connection_->Queue(kPutEpoch, PgArguments().Int(AsInt(stream)).Bytes(row));
  connection_->Queue(kImported, PgArguments()
                                    .Bytes(options_.group)
                                    .Int(AsInt(kPgImportedStream))
                                    .Bool(left_ != 0 && !local_.past.has_imported));
  const auto done = connection_->Run();
  if (!done && done.error().sqlstate == "22012") {
    return std::unexpected(Unopened{kBeingImported, true});
  }
  if (!done) return std::unexpected(UnopenedBy(*connection_, done.error(), purpose));
  local_.past.has_imported = done->back().Int(0, 0) > 0;
  local_.past.has_shared_secret = done->back().Int(0, 2) != 0;
  local_.is_restored = done->front().Int(0, 0) != 0;
  local_.went_back_place = std::max(local_.went_back_place, done->front().Number(0, 1));
  stream_ = local_.stream = stream;
  head_ = first;
  beat_ = 0;
  chain_ = chain;
  TidyStreams(*connection_, options_, identity_, stream_);
  return {};
}

void PgStore::LeaveStream() {
  left_ = std::max(left_, std::exchange(stream_, 0));
  open_.clear();
  local_.work.Become({});
  local_.open = 0;
  connection_.reset();
}

std::expected<Fetched, PgFailure> PgStore::Read(const Wishes& wishes) {
  return Fetch(*connection_, wishes, options_.group);
}

BatchEnd PgStore::Rollback(const PgFailure& failure) {
  if (failure.kind == PgFailure::Kind::kUnknown) {
    connection_.reset();
    return BatchEnd::kAway;
  }
  connection_->Queue(kPgRollback);
  if (!connection_->Run()) connection_.reset();
  // Another stream has made the same row new in between.
  const bool is_race = failure.is_conflict() || failure.sqlstate == "23505";
  if (is_race) {
    ++local_.shared.retries[failure.sqlstate];
    return BatchEnd::kAgain;
  }
  local_.refusal = failure;
  return BatchEnd::kAway;
}

std::expected<void, BatchEnd> PgStore::Lock(std::vector<PlannedRows>& plans, std::uint64_t& place) {
  QueuePgLocks(*connection_, Own(), PgReadAndMadeOf(plans).read);
  auto locked = connection_->Run();
  if (!locked) return std::unexpected(Rollback(locked.error()));
  const auto found = TakePgLocks(*locked);
  if (!found) {
    connection_->Queue(kPgRollback);
    const auto is_there =
        connection_->Run()
            ? LookForEnd(*connection_, {head_, written_place_, chain_, options_.group})
            : std::nullopt;
    if (!is_there) connection_.reset();
    return std::unexpected(is_there ? BatchEnd::kFenced : BatchEnd::kAway);
  }
  place = found->place;
  local_.is_restored = local_.is_restored || found->is_held;
  for (PlannedRows& planned : plans) {
    planned.has_lost = (planned.begins && found->is_held) || !found->Hold(planned);
  }
  return {};
}

void PgStore::EncodePlan(PlannedRows& planned, Built& built) {
  std::vector<std::string> rows;
  std::uint64_t id = planned.first;
  Digest chain = built.chain;
  for (RowWrite& write : planned.plan->writes) {
    std::string row;
    if (auto* const event = std::get_if<EventWrite>(&write)) {
      Shorten(event->event);
      AppendEventRow(row, event->event, chain, sealer_ ? &*sealer_ : nullptr);
      if (row.size() > limits::kEventBytesMax) {
        planned.has_lost = true;
        planned.failed =
            Error(ErrorCode::kInternal, "the event is too large to be kept", Delivery::kNotSent);
        return;
      }
    } else if (const auto* const flow = std::get_if<FlowWrite>(&write)) {
      AppendFlowRow(row, {RowKind::kFlow, id, 1, local_.WallMs(), chain}, flow->state);
    } else {
      AppendAliasRow(row, {RowKind::kAlias, id, 1, local_.WallMs(), chain},
                     std::get<AliasWrite>(write).alias);
    }
    chain = RowHash(row);
    built.rows[id++] = std::move(row);
  }
  built.chain = chain;
  built.head = id - 1;
}

void PgStore::Encode(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes,
                     Built& built) {
  built.head = head_;
  built.chain = chain_;
  built.open = open_;
  const auto add = [&](const auto& append) {
    const std::uint64_t id = built.head + 1;
    std::string row;
    append(row, id);
    built.chain = RowHash(row);
    built.rows[id] = std::move(row);
    built.head = id;
  };
  for (PlannedRows& planned : plans) {
    if (!planned.has_lost) EncodePlan(planned, built);
    if (!planned.has_lost) {
      Track(planned, built);
      continue;
    }
    for (std::size_t i = 0; i < planned.plan->writes.size(); ++i) {
      add([&](std::string& row, std::uint64_t id) {
        AppendVoidRow(row, {RowKind::kVoid, id, 1, local_.WallMs(), built.chain});
      });
    }
  }
  for (const NoteRow& note : notes) {
    add([&](std::string& row, std::uint64_t id) {
      note(row, {RowKind::kPolicy, id, 1, local_.WallMs(), built.chain});
    });
  }
  // Of whom others await a word he is watched, too.
  const bool is_asked = local_.is_taking || !local_.clients.empty();
  built.left = built.open.size() + local_.work.SizeAfter(built.work) + (is_asked ? 1 : 0);
}

void PgStore::Track(const PlannedRows& planned, Built& built) {
  PgOwnWork::Add(planned.changes.work, built.work);
  for (const RowWrite& write : planned.plan->writes) {
    const auto* const event = std::get_if<EventWrite>(&write);
    if (event == nullptr) continue;
    if (Dispatches(event->event)) {
      built.open[event->event.operation] = event->event.id;
    } else if (event->event.phase != Phase::kDispatching) {
      built.open.erase(event->event.operation);
    }
  }
}

BatchEnd PgStore::Commit(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes) {
  const auto end = CommitAtOnce(plans, notes);
  return end ? *end : CommitLocked(plans, notes);
}

// nullopt: it did not happen, because something else was found.
std::optional<BatchEnd> PgStore::CommitAtOnce(std::vector<PlannedRows>& plans,
                                              const std::vector<NoteRow>& notes) {
  Built built;
  Encode(plans, notes, built);
  QueuePgFence(*connection_,
               {.old = Own(),
                .head = UnpackRowId(built.head).number,
                .low = LowOf(built),
                .open = built.left,
                .chain = built.chain,
                .begins = std::ranges::any_of(plans, &PlannedRows::begins)},
               PgReadAndMadeOf(plans));
  QueueWrites(plans, built);
  const auto done = connection_->Run();
  if (done && !plans.empty()) RC_CRASH_POINT("f1");
  if (done) {
    built.place = done->front().Number(0, 1);
    Adopt(std::move(built));
    return BatchEnd::kDone;
  }
  const PgFailure& failure = done.error();
  if (failure.kind == PgFailure::Kind::kUnknown) return Doubt(failure, std::move(built));
  const bool was_first =
      failure.is_conflict() || failure.sqlstate == "23505" || failure.sqlstate == "22012";
  if (was_first) {
    ++local_.shared.retries[failure.sqlstate];
    return std::nullopt;
  }
  local_.refusal = failure;
  return BatchEnd::kAway;
}

BatchEnd PgStore::CommitLocked(std::vector<PlannedRows>& plans, const std::vector<NoteRow>& notes) {
  Built built;
  if (auto locked = Lock(plans, built.place); !locked) return locked.error();
  Encode(plans, notes, built);
  QueueWrites(plans, built);
  connection_->Queue(kPgHead, PgArguments()
                                  .Int(AsInt(stream_))
                                  .Int(AsInt(UnpackRowId(built.head).number))
                                  .Bytes(AsView(built.chain))
                                  .Int(AsInt(LowOf(built)))
                                  .Int(AsInt(built.left)));
  connection_->Queue(kPgCommit);
  const auto done = connection_->Run();
  if (done) {
    RC_CRASH_POINT("f1");
    Adopt(std::move(built));
    return BatchEnd::kDone;
  }
  if (done.error().kind == PgFailure::Kind::kRefused) return Rollback(done.error());
  return Doubt(done.error(), std::move(built));
}

BatchEnd PgStore::Doubt(const PgFailure& failure, Built built) {
  ++local_.shared.in_doubt;
  Log(LogLevel::kWarn, "the ledger's database did not confirm a batch",
      {{"reason", failure.text},
       {"do",
        "see that it answers, and that a standby which synchronous_standby_names asks for "
        "runs"}});
  in_doubt_ = std::move(built);
  connection_.reset();
  return BatchEnd::kInDoubt;
}

std::uint64_t PgStore::LowOf(const Built& built) {
  std::uint64_t low = built.head + 1;
  for (const auto& [operation, row] : built.open) low = std::min(low, row);
  return UnpackRowId(low).number;
}

void PgStore::QueueWrites(const std::vector<PlannedRows>& plans, const Built& built) {
  PgBatchWriter writer(stream_, options_.group, UnpackRowId(head_).number);
  std::map<std::uint64_t, const LogColumns*> columns;
  for (const PlannedRows& planned : plans) {
    if (planned.has_lost) continue;
    writer.Add(planned.changes);
    for (const LogColumns& row : planned.changes.log) columns[row.id] = &row;
  }
  for (const auto& [id, bytes] : built.rows) {
    const auto known = columns.find(id);
    writer.AddRow(id, bytes, known == columns.end() ? nullptr : known->second);
  }
  writer.Queue(*connection_);
}

PgStreamEnd PgStore::Own() const {
  return {.stream = stream_,
          .head = UnpackRowId(head_).number,
          .beat = beat_,
          .chain = chain_,
          .group = options_.group};
}

std::uint64_t PgStore::PlaceOf(std::uint64_t written_row) const {
  return written_place_ + written_row - (head_ - written_.size());
}

void PgStore::Adopt(Built built) {
  ++beat_;
  head_ = built.head;
  chain_ = built.chain;
  open_ = std::move(built.open);
  local_.open = open_.size();
  local_.work.Apply(built.work);
  written_ = std::move(built.rows);
  written_place_ = built.place;
}

std::optional<BatchEnd> PgStore::Resolve() {
  RC_CHECK(in_doubt_.has_value());
  connection_->Queue(kResolve, PgArguments().Int(AsInt(stream_)));
  const auto answered = connection_->Run();
  if (!answered) {
    connection_.reset();
    return std::nullopt;
  }
  const PgRows& row = answered->front();
  const StreamEnd in_doubt = StreamEndOf(in_doubt_->head, in_doubt_->chain);
  switch (JudgeEnd(StreamEndOf(head_, chain_), &in_doubt, FoundEnd(row))) {
    case EndFound::kInDoubt:
      in_doubt_->place = row.Number(0, 3);
      Adopt(std::move(*in_doubt_));
      beat_ = row.Number(0, 4);
      in_doubt_.reset();
      return BatchEnd::kDone;
    case EndFound::kWentBack:
      if (!TellPgWentBack(*connection_, {head_, written_place_, chain_, options_.group})) {
        connection_.reset();
        return std::nullopt;
      }
      in_doubt_.reset();
      return BatchEnd::kFenced;
    case EndFound::kAcknowledged:
      beat_ = row.Number(0, 4);
      in_doubt_.reset();
      break;
  }
  const bool is_ours = row.Int(0, 0) == static_cast<int>(StreamState::kLive);
  return is_ours ? BatchEnd::kAgain : BatchEnd::kFenced;
}

}  // namespace recourse
