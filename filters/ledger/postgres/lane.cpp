#include "filters/ledger/postgres/lane.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

// Begins are refused at once when nothing has been answered for so long.
constexpr Millis kPgRefusesAfter{1'000};
constexpr Millis kPgReconnectFirst{20}, kPgReconnectMost{1'000};

// Whose client waits stands in the bits above: only this process takes itself out.
constexpr PgStatement kMark{
    "mark",
    "UPDATE operation o SET version = o.version + 1,"
    " flags = (CASE p.what WHEN 1 THEN o.flags & 15 | 1 WHEN 2 THEN o.flags & 14"
    " ELSE o.flags & 15 END) | (CASE WHEN p.what = 4 THEN ($4::bigint << 4)::int"
    " WHEN o.flags >> 4 = $4::bigint THEN 0 ELSE o.flags & ~15 END)"
    " FROM (SELECT u.*, f.grp, f.key AS found"
    "  FROM (SELECT id >> 36 AS stream, id & 68719476735 AS number, attempt, what, key"
    "   FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $6::uuid[])"
    "   AS q(id, attempt, what, key) OFFSET 0) AS u"
    "  JOIN event f ON f.stream = u.stream AND f.number = u.number"
    "  AND " PG_IN_GROUP("f.grp", "$5::text") PG_ONE_BY_ONE
    " WHERE o.grp = p.grp AND o.key = p.found"
    " AND o.op_stream = p.stream AND o.op_number = p.number"
    " AND o.attempt = p.attempt AND (p.key IS NULL OR o.key = p.key)"};

PgStoreOptions WithWatch(PgStoreOptions options, std::function<void(Millis)> while_waiting) {
  options.connection.while_waiting = std::move(while_waiting);
  return options;
}

// A mark that another process's row stands in the way of is written again so often at once.
constexpr int kMarkTries = 3;

}  // namespace

PgLane::PgLane(const PgLedgerOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      local_{.clock = clock, .opener = RowDecryptor(options_.keys)},
      store_(WithWatch(options_.store, [this](Millis unanswered) { TellLate(unanswered); }),
             options_.keys, local_),
      lease_(local_, store_),
      batches_(local_, store_, lease_, jobs_),
      lists_(local_, store_, jobs_) {}

void PgLane::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::expected<void, Unopened> PgLane::Start() {
  if (auto connected = store_.Connect(); !connected) return connected;
  lease_.Take();
  past_ = local_.past;
  stream_ = store_.stream();
  Publish();
  thread_ = std::thread([this] { Run(); });
  return {};
}

void PgLane::SetTaking(bool is_taking) {
  if (is_taking_.exchange(is_taking) != is_taking) Beat();
}

void PgLane::Beat() {
  {
    const std::lock_guard lock(mutex_);
    counts_work_ = true;
  }
  wake_.notify_one();
}

Result<void> PgLane::Submit(Request request, std::size_t queue_max, bool begins) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) {
      return std::unexpected(
          Error(ErrorCode::kLedgerUnavailable, "the ledger is closing", Delivery::kNotSent));
    }
    if (begins && away_since_ && clock_.Now() - *away_since_ >= kPgRefusesAfter) {
      return std::unexpected(PgAway());
    }
    if (queue_.size() >= queue_max) {
      return std::unexpected(
          Error(ErrorCode::kOverloaded, "the ledger's queue is full", Delivery::kNotSent));
    }
    queue_.push_back(std::move(request));
  }
  wake_.notify_one();
  return {};
}

bool PgLane::Note(const PgMark& mark, std::size_t queue_max) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_ || new_marks_.size() >= queue_max) return false;
    new_marks_.push_back(mark);
    if (marks_due_) return true;
    marks_due_ = clock_.Now() + limits::kAnsweredFlush;
  }
  wake_.notify_one();
  return true;
}

void PgLane::Run() {
  NameThread("recourse-lane");
  while (WaitForWork()) Work();
  Shutdown();
}

bool PgLane::WaitForWork() {
  // While the database is away what comes is heard, but waits for the next try.
  const bool is_away = reconnect_after_ > Millis(0);
  Millis longest = is_away ? reconnect_after_ : std::min(lists_.PollsIn(), batches_.DueIn());
  const auto no_later_than = [&](auto left) {
    longest = std::min(longest, std::chrono::ceil<Millis>(left));
  };
  if (is_away && late_at_) no_later_than(*late_at_ - clock_.Now());
  if (store_.is_connected()) no_later_than(lease_.BeatIn(is_taking_));
  std::unique_lock lock(mutex_);
  if (marks_due_ && !is_away) no_later_than(*marks_due_ - clock_.Now());
  const auto has_work = [this, is_away, has_marks = marks_due_.has_value()] {
    const bool is_asked = !queue_.empty() || counts_work_ || (marks_due_ && !has_marks);
    return is_stopping_ || (is_asked && !is_away);
  };
  if (longest == Millis::max()) {
    wake_.wait(lock, has_work);
  } else {
    // The injected clock says how long; waking early does no harm, so real time may serve.
    wake_.wait_for(lock, std::max(longest, Millis(0)), has_work);
  }
  std::swap(taken_, queue_);
  return !is_stopping_ || !taken_.empty();
}

void PgLane::Sort(Request request) {
  if (auto* const verb = std::get_if<std::unique_ptr<PgVerb>>(&request)) {
    batches_.Add(std::move(*verb));
  } else if (auto* const join = std::get_if<JoinWait*>(&request)) {
    lists_.Add(*join);
  } else if (auto* const list = std::get_if<PgListWait>(&request)) {
    lists_.Add(*list);
  } else {
    batches_.Add(std::move(std::get<std::shared_ptr<PgNoteWait>>(request)));
  }
}

void PgLane::Work() {
  for (Request& request : taken_) Sort(std::move(request));
  taken_.clear();
  if (IsReady()) Serve();
  lists_.ExpireJoins();
  const bool is_away = !store_.is_connected();
  if (is_away) {
    reconnect_after_ = std::clamp(2 * reconnect_after_, kPgReconnectFirst, kPgReconnectMost);
    late_at_ = batches_.GiveUp(options_.wait);
    batches_.DropAbandoned();
    lists_.GiveUp();
  }
  {
    const std::lock_guard lock(mutex_);
    away_since_ = is_away ? away_since_.value_or(clock_.Now()) : std::optional<MonoTime>();
  }
  Publish();
  jobs_.Post();
  batches_.TellNotes();
}

void PgLane::Serve() {
  if (!lease_.MeasureClock()) return;
  const bool marks_are_due = [this] {
    const std::lock_guard lock(mutex_);
    return marks_due_ && *marks_due_ <= clock_.Now();
  }();
  // What is asked behind a mark finds it, and so does who has seen the batch behind it.
  if ((marks_are_due || marks_are_refused_ || lists_.has_new()) && !FlushMarks()) return;
  while (batches_.DueIn() <= Millis(0)) {
    if (!FlushMarks() || !batches_.Commit()) return;
    Publish();
    jobs_.Post();
    batches_.TellNotes();
  }
  if (IsBeatDue() && !(lease_.CountWork(is_taking_) && FlushMarks() && batches_.Commit(true))) {
    return;
  }
  if (!lists_.Serve(batches_.TakeChanged())) return;
  if (!lease_.HandsOverHeldRows(batches_.only_begins() && !is_taking_)) return;
  batches_.LeaveStream();
  (void)IsReady();
}

bool PgLane::IsBeatDue() {
  const bool is_due = lease_.BeatIn(is_taking_) <= BootClock::duration::zero();
  const std::lock_guard lock(mutex_);
  return std::exchange(counts_work_, false) || is_due;
}

// Connected, and nothing is in doubt.
bool PgLane::IsReady() {
  const bool was_connected = store_.is_connected();
  if (auto connected = store_.Connect(); !connected) {
    const std::string& why = connected.error().why;
    if (away_told_ != why) {
      Log(LogLevel::kError, "the ledger's database is away; new writes are held back",
          {{"reason", why}});
    }
    away_told_ = why;
    return false;
  }
  lease_.Take();
  stream_ = store_.stream();
  if (!batches_.Resolve()) return false;
  if (was_connected || marks_are_refused_) return true;
  reconnect_after_ = Millis(0);
  if (!away_told_.empty()) Log(LogLevel::kInfo, "the ledger's database answers again");
  away_told_.clear();
  const std::lock_guard lock(mutex_);
  away_since_.reset();
  return true;
}

// While the database has not answered for so long. What is sent stays in doubt, and what waits for
// it is told all the same.
void PgLane::TellLate(Millis unanswered) {
  const bool may_read = unanswered < options_.wait;
  const auto tell_late = [&](const Request& request) {
    if (auto* const join = std::get_if<JoinWait*>(&request); join != nullptr && !may_read) {
      jobs_.TellAway(*join);
      return true;
    }
    if (auto* const list = std::get_if<PgListWait>(&request); list != nullptr && !may_read) {
      jobs_.TellAway(*list);
      return true;
    }
    const auto* const verb = std::get_if<std::unique_ptr<PgVerb>>(&request);
    const auto late = verb != nullptr ? (*verb)->patience(options_.wait) : std::nullopt;
    if (!late || *late > clock_.Now()) return false;
    Executor* const executor = (*verb)->executor();
    jobs_.Tell(executor, (*verb)->TellAway());
    return (*verb)->is_abandoned;
  };
  {
    const std::lock_guard lock(mutex_);
    if (unanswered >= kPgRefusesAfter && !away_since_) away_since_ = clock_.Now() - unanswered;
    std::erase_if(queue_, tell_late);
  }
  (void)batches_.GiveUp(options_.wait);
  Publish();
  jobs_.Post();
}

std::vector<PgMark> PgLane::TakeMarks() {
  const auto news = local_.clients.Look(clock_.Now());
  {
    const std::lock_guard lock(mutex_);
    for (const PgMark& mark : new_marks_) marks_[mark.attempt.operation] = mark;
    new_marks_.clear();
    marks_due_.reset();
  }
  std::vector<PgMark> marks;
  for (const auto& [operation, mark] : marks_) marks.push_back(mark);
  const auto add = [&](const std::vector<AttemptId>& those, PgMark::What what) {
    for (const AttemptId& one : those) {
      if (!marks_.contains(one.operation)) marks.push_back({one, what});
    }
  };
  add(news.left, PgMark::What::kLeft);
  add(news.joined, PgMark::What::kJoined);
  return marks;
}

// False: the database is away. Others take the next batch for a sign that this has been written.
bool PgLane::FlushMarks() {
  const std::vector<PgMark> marks = TakeMarks();
  if (!marks.empty() && !Write(marks)) {
    const std::lock_guard lock(mutex_);
    if (!marks_.empty()) marks_due_ = clock_.Now() + limits::kAnsweredFlush;
    return false;
  }
  for (const PgMark& mark : marks) {
    if (mark.what == PgMark::What::kJoined) {
      local_.clients.ToldOf(mark.attempt.operation);
    } else {
      local_.clients.Forget(mark.attempt.operation);
    }
  }
  marks_.clear();
  if (std::exchange(marks_are_refused_, false)) reconnect_after_ = Millis(0);
  if (marks.empty() || marks_told_.empty()) return true;
  marks_told_.clear();
  local_.refusals.End(PgRefusals::Of::kMark);
  Log(LogLevel::kInfo, "the ledger's database notes again whose clients were answered");
  return true;
}

bool PgLane::Write(const std::vector<PgMark>& marks) {
  PgArray ids(PgArray::Of::kInt), attempts(PgArray::Of::kInt), what(PgArray::Of::kInt),
      keys(PgArray::Of::kUuid);
  for (const PgMark& mark : marks) {
    ids.Int(AsInt(mark.attempt.operation));
    attempts.Int(mark.attempt.attempt);
    what.Int(static_cast<std::int64_t>(mark.what));
    mark.attempt.key ? keys.Uuid(*mark.attempt.key) : keys.Null();
  }
  PgArguments arguments;
  for (const PgArray* const array : {&ids, &attempts, &what}) array->AppendTo(arguments);
  arguments.Int(AsInt(store_.stream()));
  arguments.Bytes(options_.store.group);
  keys.AppendTo(arguments);
  for (int tries = 0; tries < kMarkTries; ++tries) {
    store_.connection().Queue(kMark, arguments);
    const auto done = store_.connection().Run();
    if (done) return true;
    if (!store_.is_connected()) return false;
    if (tries + 1 < kMarkTries) continue;
    local_.refusals.Add(PgRefusals::Of::kMark, done.error());
    marks_are_refused_ = true;
    if (std::exchange(marks_told_, done.error().text) == done.error().text) break;
    Log(LogLevel::kWarn,
        "the ledger's database refuses to note whose clients were answered; new writes are "
        "refused until it does",
        {{"sqlstate", done.error().sqlstate}, {"reason", done.error().text}});
  }
  store_.connection().GiveUp();
  return false;
}

void PgLane::Shutdown() {
  batches_.FailAll();
  lists_.GiveUp();
  lists_.EndJoins();
  // Forgetting the last marks errs towards replay.
  if (store_.is_connected()) (void)FlushMarks();
  lease_.HandOver();
  jobs_.Post();
}

bool PgLane::is_away() const {
  const std::lock_guard lock(mutex_);
  return away_since_.has_value();
}

LedgerStats PgLane::Stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

SharedLedgerCounts PgLane::Counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void PgLane::Publish() {
  const std::lock_guard lock(mutex_);
  counts_ = local_.shared;
  counts_.is_up = !away_since_ && local_.refusals.empty();
  stats_.refused = local_.refusals.Why();
  stats_.last_id = store_.head();
  stats_.head = store_.chain();
  stats_.identity = store_.identity();
  stats_.first_id = PackRowId({static_cast<std::uint32_t>(store_.stream()), 1});
  stats_.rows = UnpackRowId(store_.head()).number;
  stats_.epoch = 1;
  stats_.running = local_.open;
  stats_.restored = local_.is_restored;
  batches_.Describe(stats_);
  stats_.quota_refusals = local_.quota_refusals;
}

}  // namespace recourse
