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

constexpr PgStatement kMark{
    "mark",
    "UPDATE operation o SET version = o.version + 1,"
    " flags = CASE WHEN p.read THEN o.flags | 1 ELSE o.flags & ~1 END"
    " FROM unnest($1::bigint[], $2::bigint[], $3::boolean[]) AS p(id, attempt, read)"
    " JOIN event f ON f.stream = p.id >> 36 AND f.number = p.id & 68719476735"
    " WHERE o.grp = f.grp AND o.key = f.key AND f.grp = $4::text AND o.op_stream = p.id >> 36 AND "
    "o.op_number = p.id & 68719476735"
    " AND o.attempt = p.attempt"};

}  // namespace

PgLane::PgLane(const PgLedgerOptions& options, const Clock& clock)
    : options_(options),
      clock_(clock),
      local_{.clock = clock, .opener = RowDecryptor(options_.keys)},
      store_(options_.store, options_.keys, local_),
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

std::expected<void, std::string> PgLane::Start() {
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

void PgLane::Run() {
  NameThread("recourse-lane");
  while (WaitForWork()) Work();
  Shutdown();
}

bool PgLane::WaitForWork() {
  Millis longest = lists_.PollsIn();
  if (marks_due_) {
    longest = std::min(longest, std::chrono::ceil<Millis>(*marks_due_ - clock_.Now()));
  }
  if (reconnect_after_ > Millis(0)) longest = std::min(longest, reconnect_after_);
  if (store_.is_connected()) {
    longest = std::min(longest, std::chrono::ceil<Millis>(lease_.BeatIn(is_taking_)));
  }
  std::unique_lock lock(mutex_);
  // While the database is away what comes is heard, but waits for the next try.
  const auto has_work = [this] {
    const bool is_asked = !queue_.empty() || counts_work_;
    return is_stopping_ || (is_asked && reconnect_after_ == Millis(0));
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
  } else if (auto* const note = std::get_if<std::shared_ptr<PgNoteWait>>(&request)) {
    batches_.Add(std::move(*note));
  } else {
    const auto& answered = std::get<PgAnswered>(request);
    marks_[answered.attempt.operation] = answered;
    if (!marks_due_) marks_due_ = clock_.Now() + limits::kAnsweredFlush;
  }
}

void PgLane::Work() {
  for (Request& request : taken_) Sort(std::move(request));
  taken_.clear();
  if (IsReady()) Serve();
  lists_.ExpireJoins();
  if (!store_.is_connected()) {
    NoteAway();
    batches_.GiveUp(options_.wait);
    lists_.GiveUp();
  }
  Publish();
  jobs_.Post();
  batches_.TellNotes();
}

void PgLane::Serve() {
  const bool marks_are_due = marks_due_ && *marks_due_ <= clock_.Now();
  const bool is_asked = !batches_.is_empty() || lists_.has_new();
  // What is asked behind a mark finds it.
  if (!marks_.empty() && (marks_are_due || is_asked) && !FlushMarks()) return;
  while (!batches_.is_empty()) {
    if (!batches_.Commit()) return;
    Publish();
    jobs_.Post();
    batches_.TellNotes();
  }
  if (IsBeatDue() && !(lease_.CountWork(is_taking_) && batches_.Commit(true))) return;
  (void)lists_.Serve(batches_.TakeChanged());
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
    if (!is_away_told_) {
      Log(LogLevel::kError, "the ledger's database is away; new writes are held back",
          {{"reason", connected.error()}});
    }
    is_away_told_ = true;
    return false;
  }
  lease_.Take();
  stream_ = store_.stream();
  if (!batches_.Resolve()) return false;
  if (was_connected) return true;
  reconnect_after_ = Millis(0);
  is_away_told_ = false;
  const std::lock_guard lock(mutex_);
  away_since_.reset();
  return true;
}

void PgLane::NoteAway() {
  reconnect_after_ = std::clamp(2 * reconnect_after_, kPgReconnectFirst, kPgReconnectMost);
  const std::lock_guard lock(mutex_);
  if (!away_since_) away_since_ = clock_.Now();
}

bool PgLane::FlushMarks() {
  PgArray ids(PgArray::Of::kInt), attempts(PgArray::Of::kInt), read(PgArray::Of::kBool);
  for (const auto& [operation, answered] : marks_) {
    ids.Int(static_cast<std::int64_t>(operation));
    attempts.Int(answered.attempt.attempt);
    read.Bool(answered.is_read);
  }
  PgArguments arguments;
  for (const PgArray* const array : {&ids, &attempts, &read}) array->AppendTo(arguments);
  arguments.Bytes(options_.store.group);
  store_.connection().Queue(kMark, arguments);
  if (!store_.connection().Run() && !store_.is_connected()) return false;
  marks_.clear();
  marks_due_.reset();
  return true;
}

void PgLane::Shutdown() {
  batches_.FailAll();
  lists_.GiveUp();
  lists_.EndJoins();
  // Forgetting the last marks errs towards replay.
  if (!marks_.empty() && store_.is_connected()) (void)FlushMarks();
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
  counts_.is_up = !away_since_;
  stats_.last_id = store_.head();
  stats_.head = store_.chain();
  stats_.identity = store_.identity();
  stats_.first_id = PackRowId({static_cast<std::uint32_t>(store_.stream()), 1});
  stats_.rows = UnpackRowId(store_.head()).number;
  stats_.epoch = 1;
  stats_.running = local_.open;
  stats_.restored = local_.is_restored;
  stats_.operations = batches_.operations();
  stats_.oldest_pending_ms = batches_.OldestMs();
  stats_.commits = batches_.commits();
  stats_.quota_refusals = local_.quota_refusals;
}

}  // namespace recourse
