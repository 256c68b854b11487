#include "filters/ledger/rules/begin_decision.h"

#include "proxy/base/limits.h"

namespace recourse {
namespace {

using Target = BeginDecision::Target;

// A clock that went back must not end a window early, so a negative age is young.
bool IsOlderThan(const KeyEntry& entry, Millis age, std::int64_t now_ms) {
  return now_ms - entry.last_wall_ms > age.count();
}

bool IsRunning(Phase phase) { return phase == Phase::kNone || phase == Phase::kDispatching; }

bool IsPastWindow(const NewOperation& call, const KeyEntry& entry, std::int64_t now_ms) {
  const bool is_over = IsFinal(entry.phase) || entry.is_tombstone;
  return call.dedupe_window && is_over && IsOlderThan(entry, *call.dedupe_window, now_ms);
}

bool HasRoom(const KeyEntry& entry, const NewOperation& call) {
  return static_cast<int>(entry.attempt) < call.attempts_max;
}

BeginDecision NextAttempt(const KeyEntry& entry, const NewOperation& call, Target target) {
  if (!HasRoom(entry, call)) return {.target = target, .kind = Begun::Kind::kExhausted};
  return {.target = target,
          .kind = Begun::Kind::kFresh,
          .attempt = static_cast<std::uint16_t>(entry.attempt + 1),
          .generation = entry.generation};
}

// The backend has answered a proven failure, which it keeps for that key.
bool NeedsOtherKey(const KeyEntry& entry, const NewOperation& call) {
  const bool was_answered = entry.cause == Cause::kAnswer || entry.cause == Cause::kRejectedNow;
  return call.new_key_after_failure && was_answered;
}

// What follows on what had no effect. Refusals use up no attempts: where their numbers end, the key
// goes on with another operation.
BeginDecision TryAnew(const KeyEntry& entry, const NewOperation& call, Target target) {
  const bool is_refusal = entry.phase == Phase::kRejected || entry.phase == Phase::kNotSent;
  const bool is_long = entry.attempt >= limits::kRefusedAttemptsMax || NeedsOtherKey(entry, call);
  if (call.refusals_are_free && is_refusal && is_long && target == Target::kSameKey) {
    return {.generation = entry.generation + 1};
  }
  return NextAttempt(entry, call, target);
}

// A repeat of the operation in `entry`, its arguments already judged. `may_resend` is false where
// the bytes to send could differ from those sent before.
BeginDecision DecideRepeat(const NewOperation& call, const KeyEntry& entry, Target target,
                           bool may_resend, std::int64_t now_ms) {
  switch (entry.phase) {
    case Phase::kClaimed:
    case Phase::kApproved:
      return {.target = target, .kind = Begun::Kind::kHeld};
    case Phase::kNone:
    case Phase::kDispatching:
      return {.target = target, .kind = Begun::Kind::kRunning};
    case Phase::kUncertain:
      if (may_resend && HasRoom(entry, call)) return NextAttempt(entry, call, target);
      return {.target = target, .kind = Begun::Kind::kUnknown};
    case Phase::kSucceeded:
    case Phase::kAnswerLost:
      return {.target = target, .kind = Begun::Kind::kReplay};
    case Phase::kRejected:
      if (entry.cause != Cause::kRejectedNow && call.failed_ttl &&
          !IsOlderThan(entry, *call.failed_ttl, now_ms)) {
        return {.target = target, .kind = Begun::Kind::kReplay};
      }
      return TryAnew(entry, call, target);
    case Phase::kNotSent:
    case Phase::kProvenAbsent:
      return TryAnew(entry, call, target);
    case Phase::kCompensated:
      return {.target = target, .kind = Begun::Kind::kCompensated};
    case Phase::kTombstone:
      return {.target = target, .kind = Begun::Kind::kExpired};
    case Phase::kDenied:
      // The no has had its time.
      if (call.approval && IsOlderThan(entry, call.approval->expires, now_ms)) {
        return {.generation = entry.generation + 1};
      }
      break;
    case Phase::kExpired:
      // Nobody has said no.
      if (entry.cause == Cause::kExpired) return {.generation = entry.generation + 1};
      // The rule that asked is another one by now.
      if (entry.cause == Cause::kPolicyChanged) return NextAttempt(entry, call, target);
      break;
  }
  return {.target = target, .kind = Begun::Kind::kReplay};
}

// No attempt of it can have done anything, and nobody is asked about it.
bool HadNoEffect(Phase phase) {
  return phase == Phase::kNotSent || phase == Phase::kRejected || phase == Phase::kProvenAbsent;
}

// A human was asked and it was not sent: other arguments are another question.
bool IsRefusedQuestion(Phase phase) { return phase == Phase::kDenied || phase == Phase::kExpired; }

// A call that others made already: they are told how it stands, and see nothing of it.
BeginDecision DecideOthers(const NewOperation& call, const KeyEntry& entry, Target target,
                           std::int64_t now_ms) {
  if (HadNoEffect(entry.phase)) return TryAnew(entry, call, target);
  const bool same_args = entry.args_hash == call.event.args_hash;
  if (!same_args && IsRefusedQuestion(entry.phase)) return {.generation = entry.generation + 1};
  const bool tells_nothing = IsClaim(entry.phase) || entry.phase == Phase::kDenied ||
                             entry.phase == Phase::kExpired || entry.phase == Phase::kTombstone;
  if (tells_nothing && same_args) return DecideRepeat(call, entry, target, false, now_ms);
  return {.target = target, .kind = Begun::Kind::kOtherCredentials};
}

// A repeat whose arguments have not been judged yet.
BeginDecision DecideKnown(const NewOperation& call, const KeyEntry& entry, Target target,
                          std::int64_t now_ms) {
  if (!MayBeShown(call.event.principal, entry.principal)) {
    return DecideOthers(call, entry, target, now_ms);
  }
  const bool same_args = entry.args_hash == call.event.args_hash;
  // Whoever mends what was refused is not refused for mending it.
  if (!same_args && HadNoEffect(entry.phase)) return TryAnew(entry, call, target);
  if (!same_args && IsRefusedQuestion(entry.phase)) return {.generation = entry.generation + 1};
  if (!same_args && call.on_mismatch == OnMismatch::kReject) {
    return {.target = target, .kind = Begun::Kind::kConflict};
  }
  if (!same_args && call.on_mismatch == OnMismatch::kAsk) {
    return {.target = target, .kind = Begun::Kind::kSuspected};
  }
  // Other arguments are never sent over an attempt of unknown outcome: the backend's own
  // de-duplication promises something for equal bytes only.
  return DecideRepeat(call, entry, target, call.may_resend && same_args, now_ms);
}

// The arguments are gone, so they cannot differ. What provably had no effect may be executed, and
// what stood no more when it was forgotten.
BeginDecision DecideRetired(const NewOperation& call, const KeyEntry& entry) {
  const bool was_over = call.may_be_superseded && entry.phase == Phase::kCompensated;
  if (was_over || HadNoEffect(entry.phase) || entry.phase == Phase::kDenied ||
      entry.phase == Phase::kExpired) {
    return {.generation = entry.generation};
  }
  return {.target = Target::kSameKey, .kind = Begun::Kind::kExpired};
}

// What is not settled has not been answered, whatever was told about it.
bool IsAnswered(const KeyEntry& entry) { return entry.is_answered && !IsOpen(entry.phase); }

// What it did was executed, or undone since, and stands no more: its repeat is a new call, unless
// its client may still wait for the answer to the first one, or nobody knows whether it stands.
bool IsMadeAnew(const NewOperation& call, const KeyEntry& entry, Ended ended) {
  return ended == Ended::kYes && (IsIdempotent(call.event.stands.kind) || IsAnswered(entry));
}

bool IsSuperseded(const NewOperation& call, const KeyEntry& entry, Ended ended) {
  const bool is_done = entry.phase == Phase::kSucceeded || entry.phase == Phase::kAnswerLost ||
                       entry.phase == Phase::kCompensated;
  return call.may_be_superseded && ended != Ended::kNo && is_done && !entry.is_tombstone;
}

// That is told, and nothing else of it.
BeginDecision TellSuperseded(const NewOperation& call, const KeyEntry& entry, Target target) {
  if (!MayBeShown(call.event.principal, entry.principal)) {
    return {.target = target, .kind = Begun::Kind::kOtherCredentials};
  }
  const bool is_undone = entry.phase == Phase::kCompensated;
  return {.target = target,
          .kind = is_undone ? Begun::Kind::kCompensated : Begun::Kind::kSuperseded};
}

BeginDecision DecideSameKey(const NewOperation& call, const BeginFacts& facts) {
  const KeyEntry& entry = *facts.same_key;
  const BeginDecision anew{.generation = entry.generation + 1};
  // Past its window the key means nothing any more, so this comes before the arguments.
  if (IsPastWindow(call, entry, facts.now_ms)) return anew;
  if (entry.is_tombstone) return DecideRetired(call, entry);
  if (call.is_retry_only && IsAnotherCall(call, entry, facts.key_client_waits, facts.now_ms)) {
    return anew;
  }
  if (IsSuperseded(call, entry, facts.key_ended)) {
    return IsMadeAnew(call, entry, facts.key_ended) ? anew
                                                    : TellSuperseded(call, entry, Target::kSameKey);
  }
  return DecideKnown(call, entry, Target::kSameKey, facts.now_ms);
}

}  // namespace

// Without a trace, a session or a name only a retry is the same call: its first client has gone, or
// has not had the answer whole, and that not long ago.
bool IsAnotherCall(const NewOperation& call, const KeyEntry& entry, bool client_waits,
                   std::int64_t now_ms) {
  if (IsClaim(entry.phase)) return false;
  if (client_waits) return true;
  if (IsRunning(entry.phase) || !MayHaveEffect(entry.phase)) return false;
  return IsAnswered(entry) || IsOlderThan(entry, call.across_window, now_ms);
}

bool RepeatsAcross(const NewOperation& call, const KeyEntry& other, bool client_waits,
                   std::int64_t now_ms) {
  const bool is_mine = MayBeShown(call.event.principal, other.principal);
  // An earlier version did not write down whose it was: it may be the caller's.
  if (!is_mine && other.principal != kNoPrincipal) return false;
  if (IsClaim(other.phase)) return true;
  // What its server has asked for may come under another trace; the approval is that of the call.
  if (call.approval && other.phase == Phase::kNotSent && other.cause == Cause::kAsksInput) {
    return true;
  }
  if (!MayHaveEffect(other.phase)) return false;
  if (call.across_traces == AcrossTraces::kAlways && other.args_hash == call.event.args_hash) {
    return true;
  }
  if (!call.has_identity && client_waits) return false;
  if (IsRunning(other.phase)) return true;
  return !IsAnswered(other) && !IsOlderThan(other, call.across_window, now_ms);
}

BeginDecision DecideBegin(const NewOperation& call, const BeginFacts& facts) {
  const KeyEntry* const same_key = facts.same_key;
  const KeyEntry* const same_intent = facts.same_intent;
  BeginDecision own;
  if (same_key != nullptr) {
    own = DecideSameKey(call, facts);
    // Past its window the key is free, whatever its last operation did.
    const bool is_free = own.target == Target::kNew || !MayHaveEffect(same_key->phase);
    if (own.kind != Begun::Kind::kFresh || !is_free) return own;
  }
  if (same_intent == nullptr || call.across_traces == AcrossTraces::kNever) return own;
  // Also where the key's own operation has had no effect, and would be sent again: the same call
  // may have been made under another key in its place.
  if (same_key != nullptr && same_key->operation == same_intent->operation) return own;
  if (IsPastWindow(call, *same_intent, facts.now_ms)) return own;
  if (RepeatsAcross(call, *same_intent, facts.intent_client_waits, facts.now_ms)) {
    if (IsSuperseded(call, *same_intent, facts.intent_ended)) {
      return IsMadeAnew(call, *same_intent, facts.intent_ended)
                 ? own
                 : TellSuperseded(call, *same_intent, Target::kSameIntent);
    }
    return DecideKnown(call, *same_intent, Target::kSameIntent, facts.now_ms);
  }
  if (call.across_traces == AcrossTraces::kAsk && IsAnswered(*same_intent) &&
      MayBeShown(call.event.principal, same_intent->principal) &&
      StatusOf(same_intent->phase) == Status::kSuccess) {
    return {.target = Target::kSameIntent, .kind = Begun::Kind::kSuspected};
  }
  return own;
}

ObserveVerdict PredictVerdict(ObserveVerdict otherwise, Begun::Kind kind, bool is_resend) {
  switch (kind) {
    case Begun::Kind::kFresh:
      return is_resend && otherwise == ObserveVerdict::kFresh ? ObserveVerdict::kWouldResend
                                                              : otherwise;
    case Begun::Kind::kRunning:
    case Begun::Kind::kHeld:
      return ObserveVerdict::kWouldJoin;
    case Begun::Kind::kReplay:
      return ObserveVerdict::kWouldReplay;
    case Begun::Kind::kUnknown:
      return ObserveVerdict::kWouldBeUnknown;
    case Begun::Kind::kConflict:
      return ObserveVerdict::kWouldConflict;
    case Begun::Kind::kSuspected:
      return ObserveVerdict::kWouldAsk;
    case Begun::Kind::kCompensated:
    case Begun::Kind::kExpired:
    case Begun::Kind::kExhausted:
    case Begun::Kind::kTooOften:
    case Begun::Kind::kFlowClosed:
    case Begun::Kind::kOtherKey:
    case Begun::Kind::kSuperseded:
    case Begun::Kind::kOtherCredentials:
    case Begun::Kind::kNeedsBefore:
      break;
  }
  return ObserveVerdict::kWouldRefuse;
}

std::string WhyRefusalIsForeseen(Begun::Kind kind) {
  const auto why = [](ErrorCode code, std::string_view text) {
    return std::string(FactsOf(code).slug).append(": ").append(text);
  };
  switch (kind) {
    case Begun::Kind::kOtherCredentials:
      return why(ErrorCode::kOtherCredentials,
                 "the same call was made with other credentials; if those are one caller's, say so "
                 "in `principal`, else tell the calls apart by Recourse-Intent or `callers`");
    case Begun::Kind::kCompensated:
      return why(ErrorCode::kCompensated,
                 "the effect of the same call was undone; a new one needs another trace or intent");
    case Begun::Kind::kExpired:
      return why(ErrorCode::kKeyExpired,
                 "the answer to the same call is no longer kept; `ledger.retention` says how long");
    case Begun::Kind::kFlowClosed:
      return why(ErrorCode::kFlowClosed,
                 "its flow takes no further writes; a new flow needs another trace");
    case Begun::Kind::kTooOften:
      return why(ErrorCode::kQuotaExceeded,
                 "the same call was refused, and is repeated too often; repeat it more slowly");
    default:
      return why(ErrorCode::kNotSent, "the same call was tried as often as one may be");
  }
}

}  // namespace recourse
