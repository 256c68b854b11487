#include "filters/ledger/postgres/batches.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

constexpr int kPgRoundsMax = 128;  // of one batch
constexpr int kPgLossesMax = 16;   // of one verb
// How soon what was refused is written again: at once so often, and then with pauses that double.
constexpr int kPgRefusedAtOnce = 3, kPgRefusedDoublings = 6;
constexpr Millis kPgRefusedFirst{20};
// Whether what begins need not wait any longer.
constexpr Millis kPgPauseLook{10};

Error PgRefused() {
  return Error(ErrorCode::kLedgerUnavailable,
               "the ledger's database refuses what is asked of it; the log says why",
               Delivery::kNotSent);
}
constexpr std::size_t kFlowsRemembered = 16'384;

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

// About: of what makes it large.
std::size_t LargeBytesOf(const Plan& plan) {
  std::size_t bytes = 0;
  for (const RowWrite& write : plan.writes) {
    const auto* const row = std::get_if<EventWrite>(&write);
    if (row == nullptr) continue;
    const Event& event = row->event;
    bytes += event.answer.body.size() + (event.request ? event.request->body.size() : 0);
    if (event.state) bytes += BytesOf(*event.state);
  }
  return bytes;
}

std::vector<NoteRow> RowsOf(const std::vector<std::shared_ptr<PgNoteWait>>& notes) {
  std::vector<NoteRow> rows;
  for (const std::shared_ptr<PgNoteWait>& note : notes) {
    rows.emplace_back([note](std::string& out, RowHead head) {
      if (const auto* const change = std::get_if<PolicyChange>(&note->note)) {
        head.kind = RowKind::kPolicy;
        AppendPolicyRow(out, head, *change);
      } else {
        head.kind = RowKind::kOrder;
        AppendOrderRow(out, head, std::get<OperatorOrder>(note->note));
      }
    });
  }
  return rows;
}

// Its client counts from now on, for other processes too.
Job Written(PgVerb& verb, LocalFacts& local, bool is_trial = false) {
  auto client = verb.client();
  Job job = is_trial ? verb.Fail(PgRefused()) : verb.Succeed();
  if (client) local.clients.Add(std::move(*client));
  return job;
}

}  // namespace

void PgBatches::Add(std::unique_ptr<PgVerb> verb) {
  Restart(*verb);
  verbs_.push_back(std::move(verb));
}

Millis PgBatches::DueIn() const {
  Millis soonest = notes_.empty() ? Millis::max() : Millis(0);
  const MonoTime now = local_.clock.Now();
  for (const auto& verb : verbs_) {
    if (verb->due <= now) return Millis(0);
    soonest = std::min(soonest, std::chrono::ceil<Millis>(verb->due - now));
  }
  return soonest;
}

bool PgBatches::only_begins() const {
  return notes_.empty() &&
         std::ranges::all_of(verbs_, [](const auto& verb) { return verb->begins(); });
}

void PgBatches::Describe(LedgerStats& stats) const {
  stats.operations = operations_;
  stats.commits = commits_;
  std::int64_t oldest = 0;
  for (const auto& [operation, own] : own_) {
    oldest = oldest == 0 ? own.operation.wall_ms : std::min(oldest, own.operation.wall_ms);
  }
  stats.oldest_pending_ms = oldest;
}

// A call that begins is new most of the time, so that it is taken to be.
void PgBatches::Restart(PgVerb& verb) {
  auto* const begin = verb.begins() && verb.rounds == 0 ? dynamic_cast<PgBegin*>(&verb) : nullptr;
  const bool guesses = begin != nullptr && begin->may_guess();
  verb.Restart(local_, guesses);
  auto* const record = verb.rounds == 0 ? dynamic_cast<PgRecord*>(&verb) : nullptr;
  const auto own = record != nullptr ? own_.find(record->operation()) : own_.end();
  if (own != own_.end()) {
    verb.facts().rows().Remember(own->second.key, own->second.operation, own->second.row);
  }
  if (!guesses) return;
  const Event& event = begin->operation().event;
  const Uuid flow = AsUuid(FlowKeyOf(event.caller, event.flow));
  const auto known = flows_.find(flow);
  if (event.is_step && known != flows_.end()) verb.facts().rows().Remember(flow, known->second);
}

// Decides what can be decided, reading what that takes. False: the database is away.
bool PgBatches::Gather() {
  for (int round = 0; round < kPgRoundsMax; ++round) {
    DropAbandoned();
    Wishes wishes;
    GatherRound(wishes);
    if (wishes.empty()) return true;
    auto fetched = store_.Read(wishes);
    DropAbandoned();
    if (!fetched && fetched.error().is_conflict()) continue;
    if (!fetched) {
      Log(LogLevel::kWarn, "the ledger's database cannot be read",
          {{"reason", fetched.error().text}});
      if (store_.is_connected()) {
        // What cannot be read cannot be decided.
        const Error why = PgRefused();
        for (std::size_t i = verbs_.size(); i-- > 0;) {
          if (verbs_[i]->facts().rows().wishes().empty()) continue;
          if (verbs_[i]->begins()) local_.refusals.Add(PgRefusals::Of::kCall, fetched.error());
          Refuse(*verbs_[i], why);
        }
        return true;
      }
      Begin();
      DropAbandoned();
      for (const auto& verb : verbs_) Restart(*verb);
      return false;
    }
    for (const auto& verb : verbs_) verb->facts().rows().Take(*fetched);
  }
  return true;
}

void PgBatches::GatherRound(Wishes& wishes) {
  for (std::size_t i = 0; i < verbs_.size(); ++i) {
    PgVerb& verb = *verbs_[i];
    if (settled_.contains(&verb) || verb.due > local_.clock.Now()) continue;
    if (verb.is_abandoned) continue;
    if (verb.begins() && lease_.pauses_begins()) {
      verb.due = local_.clock.Now() + kPgPauseLook;
      continue;
    }
    // A batch that takes longer than an answer may would be sent again for ever.
    if (bytes_ >= limits::kCommitBatchBytesMax) break;
    if (next_row_ - store_.next_row() >= limits::kCommitBatchMax) break;
    if (!Consider(verb, wishes)) --i;
  }
}

// False: it is decided, and gone.
bool PgBatches::Consider(PgVerb& verb, Wishes& wishes) {
  Known& known = verb.known();
  known.first_row = std::numeric_limits<std::uint64_t>::max();
  known.durable_row = std::numeric_limits<std::uint64_t>::max();
  known.next_row = next_row_;
  known.wall_ms = local_.WallMs();
  known.lived_ms = local_.LivedMs();
  known.has_open_writes = verb.rounds > 0 || !verb.begins();
  known.is_restored = local_.is_restored;
  for (int round = 0; round < kPgRoundsMax; ++round) {
    auto plan = verb.Decide();
    if (plan) return Accept(verb, **plan, wishes);
    if (const auto* const error = std::get_if<Error>(&plan.error())) {
      if (!verb.facts().rows().has_guessed()) {
        Drop(verb, verb.Fail(*error));
        return false;
      }
      ++verb.rounds;
      Restart(verb);
      return Consider(verb, wishes);
    }
    if (!verb.facts().rows().wishes().empty()) {
      wishes.Add(verb.facts().rows().wishes());
      return true;
    }
    if (const auto later = verb.facts().later()) {
      Restart(verb);
      verb.due = *later;
      settled_.insert(&verb);
      return true;
    }
  }
  Drop(verb, verb.Fail(Error(ErrorCode::kInternal, "it cannot be decided")));
  return false;
}

bool PgBatches::Accept(PgVerb& verb, Plan& plan, Wishes& wishes) {
  const bool has_guessed = verb.facts().rows().has_guessed();
  if (plan.writes.empty() && !has_guessed) {
    Drop(verb, Written(verb, local_));
    return false;
  }
  // Nothing is sent whose outcome would be refused.
  const bool is_closed = verb.begins() && local_.refusals.Has(PgRefusals::Of::kOutcome);
  if (is_closed && !has_guessed && !verb.is_trial && !verb.BecomesTrial(verbs_)) {
    Drop(verb, verb.Fail(PgRefused()));
    return false;
  }
  if (has_guessed && (is_closed || plan.writes.empty())) {
    ++verb.rounds;
    Restart(verb);
    return Consider(verb, wishes);
  }
  Plot(verb, plan);
  return true;
}

void PgBatches::Plot(PgVerb& verb, Plan& plan) {
  const auto defer = [&] {
    settled_.insert(&verb);
    if (verb.is_abandoned) return;
    ++verb.rounds;
    Restart(verb);
  };
  // What is refused for its own sake is no reason to refuse others.
  const bool is_alone =
      verb.refusals > 0 || (!accepted_.empty() && accepted_[0].first->refusals > 0);
  if (is_alone && !accepted_.empty()) return defer();
  if (writes_.Meet(verb.facts().rows().versions())) return defer();
  // Behind a fence it is another stream's, and what was refused as an outcome is one still.
  if (verb.begins()) verb.rows = PgRefusals::Of::kCall;
  if (IsOutcome(verb, own_)) verb.rows = PgRefusals::Of::kOutcome;
  const std::uint64_t first = verb.known().next_row;
  SetIds(first, verb.known().wall_ms, plan);
  std::optional<Changes> changes;
  for (int round = 0; round < kPgRoundsMax && !changes; ++round) {
    changes =
        ChangesOf(plan, {store_.stream(), first, verb.known().wall_ms, verb.client().has_value()},
                  verb.facts().rows());
    if (changes) break;
    const auto fetched = store_.Read(verb.facts().rows().wishes());
    if (!fetched || verb.is_abandoned) return defer();
    verb.facts().rows().Take(*fetched);
  }
  if (!changes || writes_.Meet(verb.facts().rows().versions())) return defer();
  writes_.Add(*changes);
  settled_.insert(&verb);
  next_row_ += plan.writes.size();
  bytes_ += LargeBytesOf(plan);
  plans_.push_back({.plan = &plan,
                    .changes = std::move(*changes),
                    .read = &verb.facts().rows().versions(),
                    .first = first,
                    .begins = verb.may_be_held_back()});
  accepted_.emplace_back(&verb, &plan);
}

void PgBatches::Begin() {
  accepted_.clear();
  plans_.clear();
  settled_.clear();
  writes_ = BatchWrites();
  next_row_ = store_.next_row();
  bytes_ = 0;
}

bool PgBatches::Commit(bool may_be_empty) {
  Begin();
  lease_.LookRestored();
  if (!Gather()) return false;
  if (plans_.empty() && notes_.empty() && !may_be_empty) return true;
  const std::vector<NoteRow> notes = RowsOf(notes_.Send());
  const auto testifies = [](const Accepted& one) {
    return dynamic_cast<const PgRecord*>(one.first) != nullptr;
  };
  if (RC_CRASH_POINT_ARMED("f4") && std::ranges::any_of(accepted_, testifies)) {
    RC_CRASH_POINT("f4");
  }
  const MonoTime start = local_.clock.Now();
  const BatchEnd end = lease_.Commit(plans_, notes);
  if (end == BatchEnd::kDone && observer_) {
    observer_(std::chrono::duration<double>(local_.clock.Now() - start).count(),
              store_.written().size());
  }
  is_in_doubt_ = end == BatchEnd::kInDoubt;
  if (is_in_doubt_) return false;
  Finish(end);
  return store_.is_connected();
}

bool PgBatches::Resolve() {
  if (!is_in_doubt_) return true;
  const auto end = store_.Resolve();
  if (!end) return false;
  is_in_doubt_ = false;
  Finish(*end);
  return store_.is_connected();
}

std::optional<MonoTime> PgBatches::GiveUp(Millis wait) {
  const MonoTime now = local_.clock.Now();
  std::optional<MonoTime> next;
  for (const std::unique_ptr<PgVerb>& verb : verbs_) {
    const auto late = verb->patience(wait);
    if (!late) continue;
    if (*late > now) {
      next = std::min(next.value_or(*late), *late);
      continue;
    }
    Executor* const executor = verb->executor();
    jobs_.Tell(executor, verb->TellAway());
  }
  return next;
}

void PgBatches::DropAbandoned() {
  std::erase_if(verbs_, [this](const auto& verb) {
    return verb->is_abandoned &&
           std::ranges::find(accepted_, verb.get(), &Accepted::first) == accepted_.end();
  });
}

void PgBatches::FailAll() {
  for (const std::unique_ptr<PgVerb>& verb : verbs_) {
    if (!verb->is_abandoned) jobs_.Tell(verb->executor(), verb->Fail(PgAway()));
  }
  verbs_.clear();
  (void)notes_.Send();
  notes_.End(std::unexpected(PgAway()));
  notes_.Tell();
}

void PgBatches::Finish(BatchEnd end) {
  if (end == BatchEnd::kDone) {
    lease_.Confirm();
    FinishDone();
  } else if (end == BatchEnd::kFenced) {
    // Nothing of the batch was written.
    ++local_.shared.fenced;
    Log(LogLevel::kWarn,
        "this process's stream was ended by another one; it goes on under a new one");
    for (const auto& [verb, plan] : accepted_) Lose(*verb);
    LeaveStream();
  } else if (end == BatchEnd::kAway && store_.is_connected()) {
    const Error why = PgRefused();
    NoteRefused(accepted_, local_);
    for (const auto& [verb, plan] : accepted_) Refuse(*verb, why);
    notes_.End(std::unexpected(why));
  } else {
    for (const auto& [verb, plan] : accepted_) Lose(*verb);
  }
  accepted_.clear();
  plans_.clear();
}

void PgBatches::LeaveStream() {
  lease_.End();
  store_.LeaveStream();
  flows_.clear();
  for (auto& [operation, own] : own_) {
    if (own.caller != nullptr) --own.caller->running;
  }
  own_.clear();
  local_.clients.Clear();
}

void PgBatches::FinishDone() {
  ++commits_;
  std::set<PgVerb*> written;
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    if (!plans_[i].failed && !plans_[i].has_lost) written.insert(accepted_[i].first);
  }
  NoteWritten(written, verbs_, local_);
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
    const bool is_trial = verb->is_trial && local_.refusals.Has(PgRefusals::Of::kOutcome);
    auto unsent = verb->is_abandoned || is_trial ? verb->Withdrawal() : std::nullopt;
    Drop(*verb, Written(*verb, local_, is_trial));
    if (!unsent) continue;
    Add(std::make_unique<PgCancel>(std::move(*unsent)));
    verbs_.back()->is_trial = is_trial;
  }
  notes_.End({});
}

// What was written is what the next verbs about it will find, most of the time.
void PgBatches::Keep(const PlannedRows& planned) {
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

void PgBatches::Keep(const EventWrite& write, const Changes& changes) {
  const Event& event = write.event;
  changed_.insert(event.operation);
  QuotaUsage::Use& use = local_.callers.Of(event.caller);
  const std::string& row = store_.written().at(event.id);
  local_.stored.Add(event.id, event.caller, row.size(), local_.callers);
  if (write.counts == EventWrite::Counts::kOperation) {
    local_.callers.CountNew(use, local_.LivedMs());
    ++operations_;
  }
  const auto known = own_.find(event.operation);
  const bool is_late_word = event.phase == Phase::kDispatching && !Dispatches(event);
  if (is_late_word && known == own_.end()) return;
  QuotaUsage::Use* caller = is_late_word ? known->second.caller : nullptr;
  if (known != own_.end()) {
    if (known->second.caller != nullptr && !is_late_word) --known->second.caller->running;
    own_.erase(known);
  }
  if (event.phase != Phase::kDispatching) return;
  if (!is_late_word && write.counts != EventWrite::Counts::kNothing) {
    ++use.running;
    caller = &use;
  }
  const Uuid key = AsUuid(event.key);
  Own own{key, changes.operations.at(key), {store_.PlaceOf(event.id), row}, caller};
  ++own.operation.version;
  own_.emplace(event.operation, std::move(own));
}

// It is decided anew, on what is there now.
void PgBatches::Lose(PgVerb& verb) {
  if (verb.is_abandoned) return Drop(verb, {});
  if (++verb.rounds > kPgLossesMax && store_.is_connected()) {
    const Error why(ErrorCode::kLedgerUnavailable, "other processes were first again and again",
                    Delivery::kNotSent);
    return Refuse(verb, why);
  }
  Restart(verb);
}

// What became of a call of this process is not forgotten: nobody else would find out.
void PgBatches::Refuse(PgVerb& verb, const Error& why) {
  if (verb.is_abandoned) return Drop(verb, {});
  auto* const record = dynamic_cast<PgRecord*>(&verb);
  const bool is_outcome = verb.rows == PgRefusals::Of::kOutcome || IsOutcome(verb, own_);
  const int doublings = std::min(verb.refusals - kPgRefusedAtOnce, kPgRefusedDoublings);
  ++verb.refusals;
  if (!is_outcome && verb.refusals > kPgLossesMax) return Drop(verb, verb.Fail(why));
  ++verb.rounds;
  Restart(verb);
  if (!is_outcome || doublings < 0) return;
  verb.due = local_.clock.Now() + kPgRefusedFirst * (1 << doublings);
  if (doublings < kPgRefusedDoublings || record == nullptr) return;
  Executor* const executor = verb.executor();
  jobs_.Tell(executor,
             record->TellMeanwhile(Error(why.code(), why.detail(), Delivery::kUncertain)));
}

void PgBatches::Drop(PgVerb& verb, Job job) {
  if (job) jobs_.Tell(verb.executor(), std::move(job));
  std::erase_if(verbs_, [&](const auto& one) { return one.get() == &verb; });
}

}  // namespace recourse
