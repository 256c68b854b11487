#include "tests/differential/reference.h"

#include <algorithm>
#include <utility>

#include "proxy/base/bytes.h"
#include "proxy/base/check.h"
#include "proxy/base/log/log.h"

namespace recourse {
namespace {

// 64 clients finish long before as many operations have begun after theirs.
Error Locked() {
  return Error(ErrorCode::kLedgerUnavailable,
               "the operation is sealed with a key that is not among the ledger's keys",
               Delivery::kUncertain);
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
}

// A step never changes its flow.
void TakeFlow(const Event& from, Event& to) {
  to.caller = from.caller;
  to.flow = from.flow;
  to.flow_name = from.flow_name;
  to.is_step = from.is_step;
  to.flow_has_deadline = from.flow_has_deadline;
}

// From now on the key means that operation, also when it has been answered. The alias need not be
// durable before the caller goes on: the mark that would make it matter is a later row. A call that
// was refused has become no part of the operation. What the call has found under an earlier recipe
// it finds under its own from now on.
bool Binds(const BeginDecision& decision, bool is_older) {
  return (decision.target == BeginDecision::Target::kSameIntent || is_older) &&
         decision.kind != Begun::Kind::kSuspected && decision.kind != Begun::Kind::kConflict &&
         decision.kind != Begun::Kind::kSuperseded &&
         decision.kind != Begun::Kind::kOtherCredentials;
}

Digest KeyOfObservedRepeat(const Digest& key, std::uint64_t seq) {
  std::string text("recourse-observed-repeat");
  text.append(AsView(key));
  ByteWriter(text).Int(seq);
  return Sha256(text);
}

Cause CauseOfAttempt(const KeyEntry* previous) {
  if (previous == nullptr) return Cause::kFirstCall;
  return previous->phase == Phase::kUncertain ? Cause::kResend : Cause::kRepeat;
}

void DropRequest(Event& event) {
  event.request.reset();
  event.request_left_out = false;
}

void LeaveRequestOut(Event& event) {
  event.request.reset();
  event.request_left_out = true;
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
  Standing& stands = event.stands;
  stands.made.insert(stands.made.end(), transition.made.begin(), transition.made.end());
  stands.ended_by.insert(stands.ended_by.end(), transition.ended_by.begin(),
                         transition.ended_by.end());
  if (transition.undo_resource != Mark{}) stands.undo = transition.undo_resource;
  if (transition.task) event.task = std::move(transition.task);
  if (transition.ours && event.state) event.state->ours = std::move(*transition.ours);
  event.found = std::move(transition.found);
  // Only an unknown or a half-known outcome is ever asked about again, and a step that its probe
  // called absent.
  const bool is_absent_step =
      event.phase == Phase::kProvenAbsent && event.is_step && event.cause == Cause::kProbeAbsent;
  const bool keeps_settle =
      event.phase == Phase::kAnswerLost || is_absent_step || transition.keeps_settle;
  if (IsFinal(event.phase) && !keeps_settle) {
    event.settle.reset();
  }
  // What turns out to have had its effect all the same can still be undone.
  if (IsFinal(event.phase) && !MayHaveEffect(event.phase) && !is_absent_step) event.state.reset();
  if (IsFinal(event.phase)) {
    DropRequest(event);
    event.task.reset();
  }
}

}  // namespace

Error ReferenceEngine::Latched() {
  return Error(ErrorCode::kLedgerUnavailable, "a commit failed earlier; the ledger refuses writes",
               Delivery::kNotSent);
}

ReferenceEngine::ReferenceEngine(LedgerParts parts, const Clock& clock)
    : parts_(std::move(parts)),
      clock_(clock),
      reader_(parts_.log->NewReader()),
      opener_(parts_.keys),
      is_restored_(parts_.accept_restored != nullptr),
      jumps_(clock.Now(), ToUnixMillis(clock.WallNow())),
      index_(*parts_.log, parts_.cold.get(), parts_.hot_entries_max),
      ages_(parts_.log->LoadAges(), parts_.log->last_seq(), clock.Now()) {
  const LogBase base = parts_.log->base();
  first_seq_ = base.first_seq;
  index_.set_first_seq(first_seq_);
  head_ = {first_seq_ - 1, 0, base.prev_hash};
  chain_ = head_.hash;
  batch_.first_seq = first_seq_;
  LookAtSpace();
  if (parts_.keys != nullptr) sealer_.emplace(parts_.keys);
}

Result<ReferenceEngine::BeginStep> ReferenceEngine::Begin(NewOperation& call) {
  if (call.approved != 0) return BeginApproved(call);
  const auto ground = Survey(call);
  if (!ground) return std::unexpected(ground.error());
  BeginDecision decision = ground->decision;
  const Found* const target = ground->target();
  const Digest key = call.event.key;
  const bool is_observed = call.event.verdict != ObserveVerdict::kNone;
  if (is_observed && is_latched_) return std::unexpected(Latched());

  // What a failed commit may have written must not be told as if it stood.
  if (is_latched_ && target != nullptr && !IsCommitted(target->entry.last_event)) {
    return BeginLatched(call, target->entry);
  }
  const bool may_have_effect = target != nullptr && MayHaveEffect(target->entry.phase);
  if (is_latched_ && decision.kind == Begun::Kind::kFresh) {
    if (!may_have_effect) return std::unexpected(Latched());
    decision.kind = Begun::Kind::kUnknown;  // the resend cannot be remembered
  }
  if (decision.kind == Begun::Kind::kFresh && target != nullptr) {
    auto last = ReadEvent(target->entry.last_event);
    if (!last) return std::unexpected(last.error());
    // What its attempts carried cannot be read; nobody sends it again before the key is back.
    if (last->is_locked && last->phase != Phase::kUncertain) return std::unexpected(Locked());
    decision.kind = JudgeAttempt(call, *last);
    if (decision.kind == Begun::Kind::kOtherKey) {
      BeginStep step;
      step.begun.kind = decision.kind;
      step.begun.event = std::move(*last);
      return step;
    }
  }
  if (call.passes_fence && decision.kind == Begun::Kind::kFresh &&
      (target == nullptr || target->entry.phase != Phase::kUncertain)) {
    return std::unexpected(Error(ErrorCode::kInternal, "its outcome is unknown no more"));
  }
  RC_CHECK(decision.kind == Begun::Kind::kFresh || target != nullptr);
  if (decision.kind == Begun::Kind::kFresh) {
    if (const auto wait = PauseOf(call, *ground)) return BeginTooOften(call, *ground, *wait);
    if (auto sound = CheckUndo(call); !sound) return std::unexpected(sound.error());
    if (call.event.undoes != 0 && !may_have_effect) {
      const auto is_gone = IsGone(call.event.undoes);
      if (!is_gone) return std::unexpected(is_gone.error());
      if (*is_gone) {
        BeginStep step;
        step.begun.kind = Begun::Kind::kSuperseded;
        step.begun.event = std::move(call.event);
        return step;
      }
    }
    const auto fence = FenceOf(call, target);
    if (!fence) return std::unexpected(fence.error());
    if (*fence != 0) return BehindFence(call, ground->fenced(), *fence);
  }
  if (is_observed) return BeginObserved(call, decision, target);
  // A key that joins an operation must be remembered, or it would mean something else later.
  const bool binds = !is_latched_ && Binds(decision, ground->is_older) && !ground->is_refused;
  if (binds && !HasSpace(limits::kSmallRowBytes)) {
    return std::unexpected(Error(
        ErrorCode::kLedgerFull, "the event log has no room for another key", Delivery::kUncertain));
  }
  auto step = decision.kind == Begun::Kind::kFresh ? BeginFresh(call, decision, target)
                                                   : BeginRepeat(call, decision, *target);
  if (!step && may_have_effect) {
    return std::unexpected(Error(step.error().code(), step.error().detail(), Delivery::kUncertain));
  }
  if (step && binds) BindKey(key, target->entry.operation);
  return step;
}

// The last row of the operation is lost or not, nobody knows. Only a first beginning proves
// something: its request was held back because its row did not become durable.
Result<ReferenceEngine::BeginStep> ReferenceEngine::BeginLatched(NewOperation& call,
                                                                 const KeyEntry& entry) const {
  const bool is_first = entry.phase == Phase::kDispatching && entry.attempt == 1;
  if (is_first || IsClaim(entry.phase)) return std::unexpected(Latched());
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

// Where enforce would send the call, it becomes what it would have become there. Everything else is
// an operation of its own, under a key that nobody else finds: what it repeats goes on answering.
Result<ReferenceEngine::BeginStep> ReferenceEngine::BeginObserved(NewOperation& call,
                                                                  const BeginDecision& decision,
                                                                  const Found* found) {
  if (found != nullptr) {
    const bool is_resend = CauseOfAttempt(&found->entry) == Cause::kResend;
    call.event.verdict = PredictVerdict(call.event.verdict, decision.kind, is_resend);
    if (decision.kind != Begun::Kind::kFresh || is_resend) {
      call.event.related = found->entry.operation;
    }
    if (call.event.verdict == ObserveVerdict::kWouldRefuse) {
      call.event.detail = WhyRefusalIsForeseen(decision.kind);
    }
  }
  if (decision.kind == Begun::Kind::kFresh) return BeginFresh(call, decision, found);
  if (const auto refusal = Refusal(call, true)) return std::unexpected(*refusal);
  BeginStep step;
  step.begun.related_attempt = found->entry.attempt;
  Event& event = step.begun.event;
  event = std::move(call.event);
  const Digest key = event.key;
  event.key = KeyOfObservedRepeat(key, batch_.first_seq + batch_.size());
  event.base_key = event.key;
  event.intent = Digest{};
  event.attempt = 1;
  event.phase = Phase::kDispatching;
  event.cause = Cause::kRepeat;
  if (auto done = AppendEvent(event, nullptr); !done) return std::unexpected(done.error());
  CountAttempt(event, true);
  step.writes_event = true;
  if (Binds(decision, false)) BindKey(key, event.related);
  return step;
}

Result<ReferenceEngine::BeginStep> ReferenceEngine::BeginFresh(NewOperation& call,
                                                               const BeginDecision& decision,
                                                               const Found* found) {
  if (const auto refusal = Refusal(call, found == nullptr)) return std::unexpected(*refusal);
  BeginStep step;
  if (auto read = TakeBefore(call, found); !read) return std::unexpected(read.error());
  if (call.wants_before) {
    step.begun.kind = Begun::Kind::kNeedsBefore;
    return step;
  }
  Event& event = step.begun.event;
  event = std::move(call.event);
  event.base_key = event.key;
  event.window_ms = call.dedupe_window ? call.dedupe_window->count() : 0;
  const auto generation = found == nullptr && decision.generation > 0
                              ? FreeGeneration(event.base_key, decision.generation)
                              : Result<std::uint32_t>(decision.generation);
  if (!generation) return std::unexpected(generation.error());
  event.key = KeyOfGeneration(event.base_key, *generation);
  event.generation = *generation;
  event.operation = 0;
  if (found != nullptr && (found->key != event.key || event.is_step)) {
    const auto last = ReadEvent(found->entry.last_event);
    if (!last) return std::unexpected(last.error());
    if (found->key != event.key) TakeIdentity(*last, event);
    TakeFlow(*last, event);
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
  if (event.cause == Cause::kResend) {
    const auto last = ReadEventFront(found->entry.last_event);
    if (!last) return std::unexpected(last.error());
    event.stands.dispatched = last->stands.dispatched;
  }
  if (call.approval) AskOrContinue(call, found, event);
  if (auto done = AppendEvent(event, found != nullptr ? &found->entry : nullptr); !done) {
    return std::unexpected(done.error());
  }
  // Its sender has it; the ledger gives it back. What it leaves is freed by the thread that made
  // it.
  call.event.request = std::exchange(event.request, std::nullopt);
  CountAttempt(event, found == nullptr);
  if (call.wait != nullptr && event.phase == Phase::kDispatching) {
    call.wait->WaitFor(event.operation);
  }
  step.writes_event = true;
  if (event.phase == Phase::kClaimed) step.begun.kind = Begun::Kind::kHeld;
  return step;
}

Result<ReferenceEngine::BeginStep> ReferenceEngine::BeginRepeat(NewOperation& call,
                                                                const BeginDecision& decision,
                                                                const Found& found) {
  BeginStep step;
  step.begun.kind = decision.kind;
  step.begun.is_answered = found.entry.is_answered;
  if (decision.kind == Begun::Kind::kReplay && found.entry.is_answered) {
    step.begun.replays = replays_.Count(found.entry.operation);
  }
  if (call.wait != nullptr && decision.kind == Begun::Kind::kRunning) {
    call.wait->WaitFor(found.entry.operation);
  }
  step.begun.is_key_over = call.may_resend && decision.kind == Begun::Kind::kUnknown &&
                           IsKeyOver(call, found.entry.operation);
  if (found.entry.is_tombstone) {
    // All that is left of it; the rest is as the caller says.
    Event& event = step.begun.event;
    event = std::move(call.event);
    event.id = event.operation = found.entry.operation;
    event.key = found.key;
    event.generation = found.entry.generation;
    event.attempt = found.entry.attempt;
    event.phase = Phase::kTombstone;
    event.settle.reset();
    return step;
  }
  if (!IsCommitted(found.entry.last_event)) {
    step.load_after_commit = found.entry.last_event;
    return step;
  }
  auto event = Load(found.entry.last_event);
  if (!event) return std::unexpected(event.error());
  // Nobody works on what an earlier start left and this one could not take over.
  if (event->is_locked && event->phase == Phase::kDispatching) {
    step.begun.kind = Begun::Kind::kUnknown;
  }
  step.begun.event = std::move(*event);
  return step;
}

Result<Event> ReferenceEngine::Record(Transition& transition) {
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
  auto moved = LastEvent(entry, transition);
  if (!moved) return moved;
  Event& event = *moved;
  // What it would have to repeat cannot be read; it stays as it is until the key is back.
  if (event.is_locked) return std::unexpected(Locked());
  std::optional<std::pair<Event, KeyEntry>> compensated;
  if (event.undoes != 0 && transition.to == Phase::kSucceeded) {
    auto step = Compensated(event.undoes);
    if (!step) return std::unexpected(step.error());
    compensated = std::move(*step);
  }
  const auto effect = std::move(transition.flow);
  Advance(event, transition);
  // The outcome has its place for sure. Its answer is kept if there is room besides.
  if (event.answer_kept && !HasSpace(event.answer.body.size() + limits::kSmallRowBytes)) {
    event.answer_kept = false;
    event.answer = HttpResponse();
  }
  if (event.phase == Phase::kUncertain && event.request &&
      !HasSpace(event.request->body.size() + limits::kSmallRowBytes)) {
    LeaveRequestOut(event);
  }
  // Without it an undo that must compare is left to a human.
  if (event.state && !HasSpace(BytesOf(*event.state) + limits::kSmallRowBytes)) event.state.reset();
  // It only shows people what an undo would have overwritten.
  if (event.found && !HasSpace(limits::kRenderedRequestBytesMax)) event.found.reset();
  if (auto done = AppendEvent(event, &entry); !done) return std::unexpected(done.error());
  if (compensated) {
    auto& [step, last] = *compensated;
    if (auto done = AppendEvent(step, &last); !done) return std::unexpected(done.error());
  }
  if (effect) MoveFlowOf(event, *effect);
  return moved;
}

Result<void> ReferenceEngine::RecordPolicy(const PolicyChange& change) {
  if (is_latched_) return std::unexpected(Latched());
  const RowHead head = NextHead(RowKind::kPolicy);
  policy_seq_ = head.seq;
  AppendPolicyRow(batch_.bytes, head, change);
  CloseRow();
  return {};
}

Result<void> ReferenceEngine::RecordOrder(const OperatorOrder& order) {
  if (is_latched_) return std::unexpected(Latched());
  const RowHead head = NextHead(RowKind::kOrder);
  if (order.what == kAcceptOrder) accepted_seq_ = head.seq;
  AppendOrderRow(batch_.bytes, head, order);
  CloseRow();
  return {};
}

RowHead ReferenceEngine::NextHead(RowKind kind) {
  const std::uint64_t seq = batch_.first_seq + batch_.size();
  const std::int64_t wall_ms = WallMs();
  jumps_.Note(seq, clock_.Now(), wall_ms);
  return {kind, seq, head_.epoch, wall_ms, chain_};
}

void ReferenceEngine::CloseRow() {
  batch_.ends.push_back(batch_.bytes.size());
  chain_ = RowHash(batch_.row(batch_.size() - 1));
}

Result<void> ReferenceEngine::AppendEvent(Event& event, const KeyEntry* previous) {
  const RowHead head = NextHead(RowKind::kEvent);
  event.id = head.seq;
  event.epoch = head.epoch;
  event.wall_ms = head.wall_ms;
  if (event.operation == 0) event.operation = event.id;
  if (event.detail.size() > limits::kDetailBytesMax) event.detail.resize(limits::kDetailBytesMax);
  if (event.request && !CanBeKept(*event.request)) LeaveRequestOut(event);
  JudgeStanding(event, previous);
  const std::size_t start = batch_.bytes.size();
  AppendEventRow(batch_.bytes, event, chain_, sealer_ ? &*sealer_ : nullptr);
  if (batch_.bytes.size() - start > limits::kEventBytesMax) {
    batch_.bytes.resize(start);
    return std::unexpected(
        Error(ErrorCode::kInternal, "the event is too large to be kept", Delivery::kNotSent));
  }
  CloseRow();
  const std::size_t bytes = batch_.row(batch_.size() - 1).size();
  callers_.Store(event.caller, bytes);
  if (event.phase == Phase::kDispatching) {
    batch_.has_dispatching = true;
    // The marks are written behind this row, where they would speak of the new attempt.
    if (previous != nullptr && previous->is_answered) std::erase(marks_, event.operation);
  } else {
    batch_.has_outcome = true;
  }
  Apply(event, previous);
  OpenClaim claim{.last_event = event.id, .bytes = bytes, .flow = {}, .caller = event.caller};
  if (IsClaim(event.phase)) claim.flow = FlowKeyOf(event.caller, event.flow);
  TrackClaim(event.operation, event.phase, std::move(claim));
  TellFlow(event);
  return {};
}

Result<void> ReferenceEngine::Commit() {
  if (is_latched_) return std::unexpected(Latched());
  if (!marks_.empty()) AppendMarks();
  if (batch_.empty()) return {};
  auto done = parts_.log->Append(batch_);
  if (!done && done.error().is_full && DropAnswersOfBatch()) done = parts_.log->Append(batch_);
  if (!done) {
    is_latched_ = true;
    Log(LogLevel::kError, "the ledger cannot be written; writes are refused until a restart",
        {{"reason", done.error().reason}});
    return std::unexpected(Error(ErrorCode::kLedgerUnavailable, "the commit failed"));
  }
  ++commits_;
  head_.seq += batch_.size();
  head_.hash = chain_;
  if (batch_.base) {
    first_seq_ = batch_.base->first_seq;
    index_.set_first_seq(first_seq_);
    ages_.Forget(first_seq_ - 1);
  }
  const std::size_t bytes = batch_.bytes.size();
  batch_.Clear();
  batch_.first_seq = head_.seq + 1;
  TakeSpace(bytes);
  return {};
}

}  // namespace recourse
