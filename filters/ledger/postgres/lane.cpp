// The lane of PostgresLedger: its thread.
#include <algorithm>
#include <chrono>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/waits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {
namespace {

constexpr int kPgRoundsMax = 128;  // of one batch
constexpr int kPgLossesMax = 16;   // of one verb
constexpr Millis kPgReconnectFirst{20}, kPgReconnectMost{1'000};
constexpr std::size_t kFlowsRemembered = 16'384;

constexpr PgStatement kMark{
    "mark",
    "UPDATE operation o SET version = o.version + 1,"
    " flags = CASE WHEN p.read THEN o.flags | 1 ELSE o.flags & ~1 END"
    " FROM unnest($1::bigint[], $2::bigint[], $3::boolean[]) AS p(id, attempt, read)"
    " JOIN event f ON f.stream = p.id >> 36 AND f.number = p.id & 68719476735"
    " WHERE o.key = f.key AND o.op_stream = p.id >> 36 AND o.op_number = p.id & 68719476735"
    " AND o.attempt = p.attempt"};

std::uint64_t RowsOf(const Plan& plan) { return plan.writes.size(); }

// The ids that the plan's rows will have, in the rows themselves.
void SetIds(std::uint64_t first, std::int64_t wall_ms, Plan& plan) {
  std::uint64_t id = first;
  for (RowWrite& write : plan.writes) {
    if (auto* const event = std::get_if<EventWrite>(&write)) {
      event->event.id = id;
      event->event.epoch = 1;
      event->event.wall_ms = wall_ms;
      if (event->event.operation == 0) event->event.operation = id;
    } else if (auto* const flow = std::get_if<FlowWrite>(&write)) {
      flow->state.row = id;
    }
    ++id;
  }
}

}  // namespace

void PostgresLedger::Run() {
  NameThread("recourse-lane");
  while (WaitForWork()) Work();
  Shutdown();
}

bool PostgresLedger::WaitForWork() {
  Millis longest = Millis::max();
  if (marks_due_)
    longest = std::min(longest, std::chrono::ceil<Millis>(*marks_due_ - clock_.Now()));
  if (!joined_.empty()) longest = std::min(longest, poll_every_);
  if (reconnect_after_ > Millis(0)) longest = std::min(longest, reconnect_after_);
  std::unique_lock lock(mutex_);
  const auto has_work = [this] {
    // While the database is away what comes is heard, but waits for the next try.
    return is_stopping_ || (!queue_.empty() && reconnect_after_ == Millis(0));
  };
  if (longest == Millis::max()) {
    wake_.wait(lock, has_work);
  } else {
    wake_.wait_for(lock, std::max(longest, Millis(0)), has_work);
  }
  std::swap(taken_, queue_);
  return !is_stopping_ || !taken_.empty();
}

void PostgresLedger::Sort(Request request) {
  if (auto* const verb = std::get_if<std::unique_ptr<PgVerb>>(&request)) {
    (*verb)->since = clock_.Now();
    Restart(**verb);
    verbs_.push_back(std::move(*verb));
  } else if (auto* const join = std::get_if<JoinWait*>(&request)) {
    new_joins_.push_back(*join);
  } else if (auto* const list = std::get_if<ListWait>(&request)) {
    lists_.push_back(*list);
  } else if (auto* const note = std::get_if<std::shared_ptr<NoteWait>>(&request)) {
    notes_.push_back(std::move(*note));
  } else {
    const auto& answered = std::get<Answered>(request);
    marks_[answered.attempt.operation] = answered;
    if (!marks_due_) marks_due_ = clock_.Now() + limits::kAnsweredFlush;
  }
}

// A call that begins is new most of the time, so that it is taken to be.
void PostgresLedger::Restart(PgVerb& verb) {
  auto* const begin = verb.begins() && verb.rounds == 0 ? dynamic_cast<PgBegin*>(&verb) : nullptr;
  const bool guesses = begin != nullptr && begin->may_guess();
  verb.Restart(local_, guesses);
  auto* const record = verb.rounds == 0 ? dynamic_cast<PgRecord*>(&verb) : nullptr;
  const auto own = record != nullptr ? own_.find(record->operation()) : own_.end();
  if (own != own_.end()) {
    verb.facts().Remember(own->second.key, own->second.operation, own->second.row);
  }
  if (!guesses) return;
  const Event& event = begin->operation().event;
  const Uuid flow = AsUuid(FlowKeyOf(event.caller, event.flow));
  const auto known = flows_.find(flow);
  if (event.is_step && known != flows_.end()) verb.facts().Remember(flow, known->second);
}

void PostgresLedger::Work() {
  for (Request& request : taken_) Sort(std::move(request));
  taken_.clear();
  if (IsReady()) Serve();
  if (!store_.is_connected()) reconnect_after_ = std::max(reconnect_after_, kPgReconnectFirst);
  ExpireJoins();
  GiveUpWaiting();
  Publish();
  PostJobs();
}

void PostgresLedger::Serve() {
  const bool marks_are_due = marks_due_ && *marks_due_ <= clock_.Now();
  const bool is_asked = !verbs_.empty() || !new_joins_.empty() || !lists_.empty();
  bool is_there = marks_.empty() || !(marks_are_due || is_asked) || FlushMarks();
  while (is_there && (!verbs_.empty() || !notes_.empty())) is_there = CommitBatch();
  if (is_there) is_there = ServeReads();
  if (is_there) (void)ServeJoins();
}

// Connected, and what was in doubt is not any more.
bool PostgresLedger::IsReady() {
  const bool was_connected = store_.is_connected();
  if (auto connected = store_.Connect(); !connected) {
    const bool is_first = reconnect_after_ == Millis(0);
    reconnect_after_ =
        is_first ? kPgReconnectFirst : std::min(2 * reconnect_after_, kPgReconnectMost);
    if (is_first) {
      Log(LogLevel::kError, "new calls are held back", {{"reason", connected.error()}});
      const std::lock_guard lock(mutex_);
      away_since_ = clock_.Now();
    }
    return false;
  }
  if (is_in_doubt_) {
    const auto end = store_.Resolve();
    if (!end) return false;
    is_in_doubt_ = false;
    Finish(*end);
    if (!store_.is_connected()) return false;
  }
  if (!was_connected) {
    reconnect_after_ = Millis(0);
    const std::lock_guard lock(mutex_);
    away_since_.reset();
  }
  return true;
}

// What begins waits so long for the database, and no longer. What is in doubt is told to nobody.
void PostgresLedger::GiveUpWaiting() {
  if (store_.is_connected() && !is_in_doubt_) return;
  const MonoTime now = clock_.Now();
  for (std::unique_ptr<PgVerb>& verb : verbs_) {
    const bool is_accepted =
        std::ranges::any_of(accepted_, [&](const auto& one) { return one.first == verb.get(); });
    if (!verb->begins() || is_accepted || now - verb->since < options_.wait) continue;
    Tell(verb->executor(), verb->Fail(PgAway()));
    verb.reset();
  }
  std::erase(verbs_, nullptr);
  for (JoinWait* const wait : new_joins_) {
    wait->result = std::unexpected(PgAway());
    Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
  new_joins_.clear();
  for (const ListWait& list : lists_) {
    std::visit(
        [&](auto* wait) {
          wait->result = std::unexpected(PgAway());
          Tell(wait->executor, [wait] { wait->done.Set(true); });
        },
        list);
  }
  lists_.clear();
}

// False: the database is away.
bool PostgresLedger::CommitBatch() {
  accepted_.clear();
  plans_.clear();
  deferred_.clear();
  if (!Gather()) return false;
  PostJobs();
  if (plans_.empty() && notes_.empty()) return true;
  std::vector<NoteRow> notes;
  for (const std::shared_ptr<NoteWait>& note : notes_) {
    notes.emplace_back([note](std::string& out, RowHead head) {
      if (const auto* const change = std::get_if<PolicyChange>(&note->note)) {
        head.kind = RowKind::kPolicy;
        AppendPolicyRow(out, head, *change);
      } else {
        head.kind = RowKind::kOrder;
        AppendOrderRow(out, head, std::get<OperatorOrder>(note->note));
      }
    });
  }
  notes_sent_ = notes_.size();
  const MonoTime start = clock_.Now();
  const BatchEnd end = store_.Commit(plans_, notes);
  if (end == BatchEnd::kDone && observer_) {
    observer_(std::chrono::duration<double>(clock_.Now() - start).count(), store_.written().size());
  }
  if (end == BatchEnd::kInDoubt) {
    is_in_doubt_ = true;
    return false;
  }
  Finish(end);
  return store_.is_connected();
}

// Decides what can be decided, reading what that takes. False: the database is away.
bool PostgresLedger::Gather() {
  for (int round = 0; round < kPgRoundsMax; ++round) {
    Wishes wishes;
    GatherRound(wishes);
    if (wishes.empty()) return true;
    auto fetched = store_.Read(wishes);
    if (!fetched) {
      Log(LogLevel::kWarn, "the ledger's database cannot be read",
          {{"reason", fetched.error().text}});
      if (store_.is_connected()) return true;
      for (const auto& verb : verbs_) Restart(*verb);
      accepted_.clear();
      plans_.clear();
      return false;
    }
    for (const auto& verb : verbs_) verb->facts().Take(*fetched);
  }
  return true;
}

void PostgresLedger::GatherRound(Wishes& wishes) {
  for (std::size_t i = 0; i < verbs_.size(); ++i) {
    PgVerb& verb = *verbs_[i];
    const bool is_accepted =
        std::ranges::any_of(accepted_, [&](const auto& one) { return one.first == &verb; });
    if (is_accepted || deferred_.contains(&verb)) continue;
    if (!plans_.empty() && plans_.back().first - store_.head() >= limits::kCommitBatchMax) break;
    if (!Consider(verb, wishes)) --i;
  }
}

// False: it is decided, and gone.
bool PostgresLedger::Consider(PgVerb& verb, Wishes& wishes) {
  Known& known = verb.known();
  known.first_row = std::numeric_limits<std::uint64_t>::max();
  known.durable_row = std::numeric_limits<std::uint64_t>::max();
  known.next_row = store_.next_row();
  for (const PlannedRows& planned : plans_) known.next_row += RowsOf(*planned.plan);
  known.wall_ms = local_.WallMs();
  known.lived_ms = local_.LivedMs();
  known.has_open_writes = verb.rounds > 0 || !verb.begins();
  for (int round = 0; round < kPgRoundsMax; ++round) {
    auto plan = verb.Decide();
    if (plan) return Accept(verb, **plan, wishes);
    if (const auto* const error = std::get_if<Error>(&plan.error())) {
      if (!verb.facts().has_guessed()) {
        Drop(verb, verb.Fail(*error));
        return false;
      }
      ++verb.rounds;
      Restart(verb);
      return Consider(verb, wishes);
    }
    if (!verb.facts().wishes().empty()) {
      wishes.Add(verb.facts().wishes());
      return true;
    }
  }
  Drop(verb, verb.Fail(Error(ErrorCode::kInternal, "it cannot be decided")));
  return false;
}

bool PostgresLedger::Accept(PgVerb& verb, Plan& plan, Wishes& wishes) {
  if (plan.writes.empty()) {
    if (!verb.facts().has_guessed()) {
      Drop(verb, verb.Succeed());
      return false;
    }
    ++verb.rounds;
    Restart(verb);
    return Consider(verb, wishes);
  }
  Plot(verb, plan);
  return true;
}

void PostgresLedger::Plot(PgVerb& verb, Plan& plan) {
  const auto meets = [&] {
    return std::ranges::any_of(plans_, [&](const PlannedRows& planned) {
      return planned.changes.Meets(verb.facts().versions());
    });
  };
  const auto defer = [&] {
    ++verb.rounds;
    Restart(verb);
    deferred_.insert(&verb);
  };
  if (meets()) return defer();
  const std::uint64_t first = verb.known().next_row;
  SetIds(first, verb.known().wall_ms, plan);
  std::optional<Changes> changes;
  for (int round = 0; round < kPgRoundsMax && !changes; ++round) {
    changes = ChangesOf(plan, {store_.stream(), first, verb.known().wall_ms}, verb.facts());
    if (changes) break;
    const auto fetched = store_.Read(verb.facts().wishes());
    if (!fetched) return defer();
    verb.facts().Take(*fetched);
  }
  if (!changes || meets()) return defer();
  plans_.push_back({.plan = &plan,
                    .changes = std::move(*changes),
                    .read = &verb.facts().versions(),
                    .first = first});
  accepted_.emplace_back(&verb, &plan);
}

void PostgresLedger::Finish(BatchEnd end) {
  if (end == BatchEnd::kDone) {
    FinishDone();
  } else if (end == BatchEnd::kFenced) {
    Log(LogLevel::kError, "this process was declared dead, and goes on under another stream");
    for (const auto& [verb, plan] : accepted_) {
      if (verb->begins()) {
        Drop(*verb, verb->Fail(PgAway()));
      } else {
        Lose(*verb);
      }
    }
    store_.LeaveStream();
    flows_.clear();
    for (auto& [operation, own] : own_) {
      if (own.caller != nullptr) --own.caller->running;
    }
    own_.clear();
  } else {
    for (const auto& [verb, plan] : accepted_) Lose(*verb);
  }
  accepted_.clear();
  plans_.clear();
}

void PostgresLedger::FinishDone() {
  ++commits_;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    const auto [verb, plan] = accepted_[i];
    const PlannedRows& planned = plans_[i];
    if (planned.failed) {
      Drop(*verb, verb->Fail(*planned.failed));
      continue;
    }
    for (const auto& [key, read] : planned.read->flows) flows_.erase(key);
    if (planned.has_lost) {
      Lose(*verb);
      continue;
    }
    Keep(planned);
    Drop(*verb, verb->Succeed());
  }
  for (std::size_t i = 0; i < notes_sent_; ++i) notes_[i]->promise.set_value({});
  notes_.erase(notes_.begin(), notes_.begin() + static_cast<std::ptrdiff_t>(notes_sent_));
  notes_sent_ = 0;
}

// What was written is what the next verbs about it will find, most of the time.
void PostgresLedger::Keep(const PlannedRows& planned) {
  const Changes& changes = planned.changes;
  if (flows_.size() > kFlowsRemembered) flows_.clear();
  for (const auto& [key, flow] : changes.flows) {
    StoredFlow now = flow;
    ++now.version;
    flows_[key] = now;
  }
  for (const auto& [key, more] : changes.steps) {
    if (changes.flows.contains(key)) continue;
    StoredFlow now = planned.read->flows.at(key);
    now.steps += more;
    flows_[key] = now;
  }
  for (const RowWrite& write : planned.plan->writes) {
    if (const auto* const event = std::get_if<EventWrite>(&write)) Keep(*event, changes);
  }
}

void PostgresLedger::Keep(const EventWrite& write, const Changes& changes) {
  const Event& event = write.event;
  polls_now_ = polls_now_ || joined_.contains(event.operation);
  QuotaUsage::Use& use = local_.callers.Of(event.caller);
  const std::string& row = store_.written().at(event.id);
  local_.callers.Store(event.caller, row.size());
  if (write.counts == EventWrite::Counts::kOperation) {
    local_.callers.CountNew(use, local_.LivedMs());
  }
  const auto known = own_.find(event.operation);
  if (known != own_.end()) {
    if (known->second.caller != nullptr) --known->second.caller->running;
    own_.erase(known);
  }
  if (event.phase != Phase::kDispatching) return;
  const bool counts = write.counts != EventWrite::Counts::kNothing;
  if (counts) ++use.running;
  const Uuid key = AsUuid(event.key);
  Own own{
      key, changes.operations.at(key), {store_.PlaceOf(event.id), row}, counts ? &use : nullptr};
  ++own.operation.version;
  own_.emplace(event.operation, std::move(own));
}

// It is decided anew, on what is there now.
void PostgresLedger::Lose(PgVerb& verb) {
  if (++verb.rounds > kPgLossesMax && store_.is_connected()) {
    Drop(verb, verb.Fail(Error(ErrorCode::kLedgerUnavailable,
                               "other processes were first again and again", Delivery::kNotSent)));
    return;
  }
  Restart(verb);
}

void PostgresLedger::Drop(PgVerb& verb, Job job) {
  Tell(verb.executor(), std::move(job));
  std::erase_if(verbs_, [&](const auto& one) { return one.get() == &verb; });
}

bool PostgresLedger::FlushMarks() {
  PgArray ids(PgArray::Of::kInt), attempts(PgArray::Of::kInt), read(PgArray::Of::kBool);
  for (const auto& [operation, answered] : marks_) {
    ids.Int(static_cast<std::int64_t>(operation));
    attempts.Int(answered.attempt.attempt);
    read.Bool(answered.is_read);
  }
  PgArguments arguments;
  for (const PgArray* const array : {&ids, &attempts, &read}) array->AppendTo(arguments);
  if (!Ask(kMark, arguments)) return store_.is_connected();
  marks_.clear();
  marks_due_.reset();
  return true;
}

std::expected<std::vector<PgRows>, PgFailure> PostgresLedger::Ask(const PgStatement& statement,
                                                                  const PgArguments& arguments) {
  store_.connection().Queue(statement, arguments);
  auto answered = store_.connection().Run();
  if (!answered) {
    Log(LogLevel::kWarn, "the ledger's database cannot be asked",
        {{"reason", answered.error().text}});
  }
  return answered;
}

void PostgresLedger::Shutdown() {
  for (const std::unique_ptr<PgVerb>& verb : verbs_) {
    Tell(verb->executor(), verb->Fail(PgAway()));
  }
  verbs_.clear();
  for (const std::shared_ptr<NoteWait>& note : notes_) {
    note->promise.set_value(std::unexpected(PgAway()));
  }
  notes_.clear();
  for (JoinWait* const wait : joins_.TakeAll()) {
    wait->result = std::nullopt;
    Tell(wait->executor, [wait] { wait->promise.Set(std::move(wait->result)); });
  }
  if (!marks_.empty() && store_.is_connected()) (void)FlushMarks();
  PostJobs();
}

void PostgresLedger::Tell(Executor* executor, Job job) {
  const auto found = std::ranges::find(jobs_, executor, &decltype(jobs_)::value_type::first);
  auto& jobs = found != jobs_.end() ? found->second : jobs_.emplace_back(executor, 0).second;
  jobs.push_back(std::move(job));
}

void PostgresLedger::PostJobs() {
  for (auto& [executor, jobs] : jobs_) executor->Post(std::move(jobs));
  jobs_.clear();
}

}  // namespace recourse
