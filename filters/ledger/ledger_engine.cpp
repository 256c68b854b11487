#include "filters/ledger/ledger_engine.h"

#include <algorithm>
#include <utility>

#include "proxy/base/check.h"
#include "proxy/base/log.h"

namespace recourse {
namespace {

// 64 clients finish long before as many operations have begun after theirs.
constexpr std::size_t kRecentKeys = 16'384;
Error Latched() {
  return Error(ErrorCode::kLedgerUnavailable, "a commit failed earlier; the ledger refuses writes",
               Delivery::kNotSent);
}

// A later attempt by way of another key still belongs to the operation as it began. Its arguments
// are its own.
void TakeIdentity(const Event& from, Event& to) {
  to.key = from.key;
  to.base_key = from.base_key;
  to.intent = from.intent;
  to.window_ms = from.window_ms;
  to.caller = from.caller;
  to.trace_id = from.trace_id;
  to.flow = from.flow;
}

// From now on the key means that operation, even when it has been answered. The alias need not be
// durable before the caller goes on: the mark that would make it matter is a later row. A call that
// was refused has become no part of the operation.
bool Binds(const BeginDecision& decision) {
  return decision.target == BeginDecision::Target::kSameIntent &&
         decision.kind != Begun::Kind::kSuspected && decision.kind != Begun::Kind::kConflict;
}

Cause CauseOfAttempt(const KeyEntry* previous) {
  if (previous == nullptr) return Cause::kFirstCall;
  return previous->phase == Phase::kUncertain ? Cause::kResend : Cause::kRepeat;
}

// Turns the operation's last event into the one that `transition` makes of it.
void Advance(Event& event, Transition& transition) {
  event.phase = transition.to;
  event.cause = transition.cause;
  if (transition.to == Phase::kDispatching) ++event.attempt;
  event.detail = std::move(transition.detail);
  if (!transition.external_ref.empty()) event.external_ref = std::move(transition.external_ref);
  if (transition.http_status != 0) event.http_status = transition.http_status;
  event.answer_kept =
      transition.answer_kept && transition.answer.body.size() <= limits::kAnswerKeptBytesMax;
  event.answer = event.answer_kept ? std::move(transition.answer) : HttpResponse();
  if (transition.undo) event.undo = std::move(transition.undo);
  // Only an unknown or a half-known outcome is ever asked about again.
  if (IsFinal(event.phase) && event.phase != Phase::kAnswerLost) event.settle.reset();
}

}  // namespace

LedgerEngine::LedgerEngine(LedgerParts parts, const Clock& clock)
    : parts_(std::move(parts)),
      clock_(clock),
      reader_(parts_.log->NewReader()),
      index_(*parts_.log, parts_.cold.get(), parts_.hot_entries_max),
      recent_keys_(kRecentKeys) {
  batch_.first_seq = 1;
}

Result<LedgerEngine::BeginStep> LedgerEngine::Begin(NewOperation& call) {
  const Digest key = call.event.key;
  auto same_key = FindByKey(key);
  if (!same_key) return std::unexpected(same_key.error());
  std::optional<Found> same_intent;
  if (call.across_traces != AcrossTraces::kNever &&
      (!*same_key || !MayHaveEffect((*same_key)->entry.phase))) {
    auto found = FindByIntent(call);
    if (!found) return std::unexpected(found.error());
    same_intent = *found;
  }
  BeginDecision decision = DecideBegin(call, *same_key ? &(*same_key)->entry : nullptr,
                                       same_intent ? &same_intent->entry : nullptr, WallMs());
  const Found* target = nullptr;
  if (decision.target == BeginDecision::Target::kSameKey) target = &**same_key;
  if (decision.target == BeginDecision::Target::kSameIntent) target = &*same_intent;

  // What a failed commit may have written must not be told as if it stood.
  if (is_latched_ && target != nullptr && !IsCommitted(target->entry.last_event)) {
    return BeginLatched(call, target->entry);
  }
  const bool may_have_effect = target != nullptr && MayHaveEffect(target->entry.phase);
  if (is_latched_ && decision.kind == Begun::Kind::kFresh) {
    if (!may_have_effect) return std::unexpected(Latched());
    decision.kind = Begun::Kind::kUnknown;  // the resend cannot be remembered
  }
  RC_CHECK(decision.kind == Begun::Kind::kFresh || target != nullptr);
  auto step = decision.kind == Begun::Kind::kFresh ? BeginFresh(call, decision, target)
                                                   : BeginRepeat(decision, *target);
  if (!step && may_have_effect) {
    return std::unexpected(Error(step.error().code(), step.error().detail(), Delivery::kUncertain));
  }
  if (step && !is_latched_ && Binds(decision)) AppendAlias(key, target->entry.operation);
  return step;
}

// The last row of the operation is lost or not, nobody knows. Only a first beginning proves
// something: its request was held back because its row did not become durable.
Result<LedgerEngine::BeginStep> LedgerEngine::BeginLatched(NewOperation& call,
                                                           const KeyEntry& entry) const {
  if (entry.phase == Phase::kDispatching && entry.attempt == 1) return std::unexpected(Latched());
  BeginStep step;
  step.begun.kind = Begun::Kind::kUnknown;
  step.begun.event = std::move(call.event);
  step.begun.event.settle.reset();  // what a probe finds could not be written either
  step.begun.event.operation = entry.operation;
  step.begun.event.id = entry.operation;
  step.begun.event.attempt = entry.attempt;
  step.begun.event.phase = Phase::kUncertain;
  step.begun.event.detail = "the outcome could not be written to the event log";
  return step;
}

Result<LedgerEngine::BeginStep> LedgerEngine::BeginFresh(NewOperation& call,
                                                         const BeginDecision& decision,
                                                         const Found* found) {
  if (open_.size() >= limits::kOpenOperationsMax || index_.is_full()) {
    return std::unexpected(
        Error(ErrorCode::kOverloaded, "too many open operations", Delivery::kNotSent));
  }
  BeginStep step;
  Event& event = step.begun.event;
  event = std::move(call.event);
  event.base_key = event.key;
  event.window_ms = call.dedupe_window ? call.dedupe_window->count() : 0;
  event.key = KeyOfGeneration(event.base_key, decision.generation);
  event.generation = decision.generation;
  event.operation = 0;
  if (found != nullptr && found->key != event.key) {
    if (!ReadRow(found->entry.last_event, row_)) return std::unexpected(Unreadable());
    const auto row = ParseRow(row_);
    Event last;
    if (!row || !DecodeEvent(*row, AnswerPart::kSkipBody, last)) {
      return std::unexpected(Unreadable());
    }
    TakeIdentity(last, event);
  }
  if (found != nullptr) {
    event.operation = found->entry.operation;
  }
  event.attempt = decision.attempt;
  event.phase = Phase::kDispatching;
  event.cause = CauseOfAttempt(found == nullptr ? nullptr : &found->entry);
  event.answer_kept = false;
  event.answer = HttpResponse();
  event.undo.reset();
  event.http_status = 0;
  if (auto done = AppendEvent(event, found != nullptr ? &found->entry : nullptr); !done) {
    return std::unexpected(done.error());
  }
  return step;
}

Result<LedgerEngine::BeginStep> LedgerEngine::BeginRepeat(const BeginDecision& decision,
                                                          const Found& found) {
  BeginStep step;
  step.begun.kind = decision.kind;
  if (!IsCommitted(found.entry.last_event)) {
    step.load_after_commit = found.entry.last_event;
    return step;
  }
  auto event = Load(found.entry.last_event);
  if (!event) return std::unexpected(event.error());
  step.begun.event = std::move(*event);
  return step;
}

Result<Event> LedgerEngine::Record(Transition& transition) {
  if (is_latched_) return std::unexpected(Latched());
  auto found = FindByOperation(transition.operation);
  if (!found) return std::unexpected(found.error());
  if (!*found) return std::unexpected(Error(ErrorCode::kInternal, "no such operation"));
  const KeyEntry& entry = (*found)->entry;
  if (entry.phase != transition.from || entry.attempt != transition.attempt) {
    return std::unexpected(Error(ErrorCode::kInternal, "the operation has moved on"));
  }
  if (!IsLegal(transition.from, transition.to)) {
    return std::unexpected(Error(ErrorCode::kInternal, "not a legal transition"));
  }
  if (!ReadRow(entry.last_event, row_)) return std::unexpected(Unreadable());
  const auto row = ParseRow(row_);
  Event event;
  if (!row || !DecodeEvent(*row, AnswerPart::kSkipBody, event)) {
    return std::unexpected(Unreadable());
  }
  Advance(event, transition);
  if (auto done = AppendEvent(event, &entry); !done) return std::unexpected(done.error());
  return event;
}

void LedgerEngine::MarkAnswered(std::uint64_t operation) {
  if (is_latched_) return;
  auto found = FindByOperation(operation);
  if (!found || !*found || (*found)->entry.is_answered) return;
  if (marks_.size() >= limits::kLedgerQueueMax) return;  // forgetting errs towards replay
  (*found)->entry.is_answered = true;
  index_.Put((*found)->key, (*found)->entry);
  marks_.push_back(operation);
}

RowHead LedgerEngine::NextHead(RowKind kind) const {
  return {kind, batch_.first_seq + batch_.size(), head_.epoch, WallMs(), chain_};
}

void LedgerEngine::CloseRow() {
  batch_.ends.push_back(batch_.bytes.size());
  chain_ = RowHash(batch_.row(batch_.size() - 1));
}

Result<void> LedgerEngine::AppendEvent(Event& event, const KeyEntry* previous) {
  const RowHead head = NextHead(RowKind::kEvent);
  event.id = head.seq;
  event.epoch = head.epoch;
  event.wall_ms = head.wall_ms;
  if (event.operation == 0) event.operation = event.id;
  if (event.detail.size() > limits::kDetailBytesMax) event.detail.resize(limits::kDetailBytesMax);
  const std::size_t start = batch_.bytes.size();
  AppendEventRow(batch_.bytes, event, chain_);
  if (batch_.bytes.size() - start > limits::kEventBytesMax) {
    batch_.bytes.resize(start);
    return std::unexpected(
        Error(ErrorCode::kInternal, "the event is too large to be kept", Delivery::kNotSent));
  }
  CloseRow();
  if (event.phase == Phase::kDispatching) {
    batch_.has_dispatching = true;
  } else {
    batch_.has_outcome = true;
  }
  Apply(event, previous);
  return {};
}

void LedgerEngine::AppendAlias(const Digest& key, std::uint64_t operation) {
  const RowHead head = NextHead(RowKind::kAlias);
  AppendAliasRow(batch_.bytes, head, key, operation);
  CloseRow();
  index_.Put(key, {.operation = operation, .last_event = head.seq, .is_alias = true});
}

void LedgerEngine::AppendMarks() {
  AppendAnsweredRow(batch_.bytes, NextHead(RowKind::kAnswered), marks_);
  CloseRow();
  marks_.clear();
}

void LedgerEngine::StartEpoch() {
  ++head_.epoch;
  AppendEpochRow(batch_.bytes, NextHead(RowKind::kEpoch));
  CloseRow();
}

Result<void> LedgerEngine::Commit() {
  if (is_latched_) return std::unexpected(Latched());
  if (!marks_.empty()) AppendMarks();
  if (batch_.empty()) return {};
  const auto done = parts_.log->Append(batch_);
  if (!done) {
    is_latched_ = true;
    Log(LogLevel::kError, "the ledger cannot be written; writes are refused until a restart",
        {{"reason", done.error()}});
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "the commit failed"));
  }
  ++commits_;
  head_.seq += batch_.size();
  head_.hash = chain_;
  batch_.Clear();
  batch_.first_seq = head_.seq + 1;
  return {};
}

void LedgerEngine::Apply(const Event& event, const KeyEntry* previous) {
  const EventFront front{.operation = event.operation,
                         .generation = event.generation,
                         .attempt = event.attempt,
                         .phase = event.phase,
                         .cause = event.cause,
                         .key = event.key,
                         .base_key = event.base_key,
                         .intent = event.intent,
                         .args_hash = event.args_hash};
  ApplyFront(front, event.id, event.wall_ms, previous);
}

void LedgerEngine::ApplyFront(const EventFront& front, std::uint64_t seq, std::int64_t wall_ms,
                              const KeyEntry* previous) {
  // A new attempt has a new answer, which nobody has seen yet.
  const bool is_answered =
      previous != nullptr && previous->is_answered && front.phase != Phase::kDispatching;
  index_.Put(front.key, {.operation = front.operation,
                         .last_event = seq,
                         .last_wall_ms = wall_ms,
                         .args_hash = front.args_hash,
                         .generation = front.generation,
                         .newest_generation = previous != nullptr ? previous->newest_generation : 0,
                         .attempt = front.attempt,
                         .phase = front.phase,
                         .is_answered = is_answered});
  // The operation that was sent last stands for the intent, not the one that began last.
  if (front.phase == Phase::kDispatching && front.intent != Digest{}) {
    index_.PutIntent(front.intent, front.operation);
  }
  if (seq == front.operation) {
    ++operations_;
    if (front.generation > 0) {
      // Generation 0 stands for all: it tells which one answers now. An index that cannot be read
      // has been noticed already by the look-up that led here.
      if (auto base = index_.Find(front.base_key); base && *base) {
        (*base)->newest_generation = front.generation;
        index_.Put(front.base_key, **base);
      }
    }
  }
  recent_keys_[front.operation % recent_keys_.size()] = {front.operation, front.key};
  TrackOpen(front.operation, {front.key, seq, wall_ms, front.phase});
}

void LedgerEngine::TrackOpen(std::uint64_t operation, const OpenOperation& state) {
  const auto at = open_.lower_bound(operation);
  const bool is_there = at != open_.end() && at->first == operation;
  if (is_there && at->second.phase == Phase::kDispatching) --running_;
  if (state.phase == Phase::kDispatching) ++running_;
  if (!IsOpen(state.phase)) {
    if (is_there) open_.erase(at);
  } else if (is_there) {
    const std::int64_t since_ms = at->second.since_ms;
    at->second = state;
    at->second.since_ms = since_ms;
  } else {
    open_.emplace_hint(at, operation, state);
  }
}

std::shared_ptr<const IndexSnapshot> LedgerEngine::Freeze() {
  RC_CHECK(batch_.empty() && !is_latched_);
  IndexMark mark{
      .applied_seq = head_.seq, .applied_hash = head_.hash, .operations = operations_, .open = {}};
  mark.open.reserve(open_.size());
  for (const auto& [operation, state] : open_) mark.open.push_back({operation, state.last_event});
  return index_.Freeze(std::move(mark));
}

}  // namespace recourse
