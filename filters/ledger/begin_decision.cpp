#include "filters/ledger/begin_decision.h"

namespace recourse {
namespace {

using Target = BeginDecision::Target;

// A clock that went back must not end a window early, so a negative age is young.
bool IsOlderThan(const KeyEntry& entry, Millis age, std::int64_t now_ms) {
  return now_ms - entry.last_wall_ms > age.count();
}

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
      if (call.failed_ttl && !IsOlderThan(entry, *call.failed_ttl, now_ms)) {
        return {.target = target, .kind = Begun::Kind::kReplay};
      }
      return NextAttempt(entry, call, target);
    case Phase::kNotSent:
    case Phase::kProvenAbsent:
      return NextAttempt(entry, call, target);
    case Phase::kCompensated:
      return {.target = target, .kind = Begun::Kind::kCompensated};
    case Phase::kTombstone:
      return {.target = target, .kind = Begun::Kind::kExpired};
    case Phase::kDenied:
      break;
    case Phase::kExpired:
      // Nobody has said no: the rule that asked is another one by now.
      if (entry.cause == Cause::kPolicyChanged) return NextAttempt(entry, call, target);
      break;
  }
  return {.target = target, .kind = Begun::Kind::kReplay};
}

// A repeat whose arguments have not been judged yet.
BeginDecision DecideKnown(const NewOperation& call, const KeyEntry& entry, Target target,
                          std::int64_t now_ms) {
  const bool same_args = entry.args_hash == call.event.args_hash;
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

// The arguments are gone, so they cannot differ. What provably had no effect may be executed.
BeginDecision DecideRetired(const KeyEntry& entry) {
  if (entry.phase == Phase::kNotSent || entry.phase == Phase::kRejected ||
      entry.phase == Phase::kProvenAbsent || entry.phase == Phase::kDenied ||
      entry.phase == Phase::kExpired) {
    return {.generation = entry.generation};
  }
  return {.target = Target::kSameKey, .kind = Begun::Kind::kExpired};
}

BeginDecision DecideSameKey(const NewOperation& call, const KeyEntry& entry, std::int64_t now_ms) {
  // Past its window the key means nothing any more, so this comes before the arguments.
  if (IsPastWindow(call, entry, now_ms)) return {.generation = entry.generation + 1};
  if (entry.is_tombstone) return DecideRetired(entry);
  return DecideKnown(call, entry, Target::kSameKey, now_ms);
}

// What is not settled has not been answered, whatever was told about it.
bool IsAnswered(const KeyEntry& entry) { return entry.is_answered && !IsOpen(entry.phase); }

// The call under another key that this one repeats. With other arguments it repeats, or collides
// with, an unanswered call only: after an answer they are a new call.
bool Repeats(const NewOperation& call, const KeyEntry& other) {
  if (IsClaim(other.phase)) return true;
  // What its server has asked for may come under another trace; the approval is that of the call.
  if (call.approval && other.phase == Phase::kNotSent && other.cause == Cause::kAsksInput) {
    return true;
  }
  if (!MayHaveEffect(other.phase)) return false;
  if (!IsAnswered(other)) return true;
  return call.across_traces == AcrossTraces::kAlways && other.args_hash == call.event.args_hash;
}

}  // namespace

BeginDecision DecideBegin(const NewOperation& call, const KeyEntry* same_key,
                          const KeyEntry* same_intent, std::int64_t now_ms) {
  BeginDecision own;
  if (same_key != nullptr) {
    own = DecideSameKey(call, *same_key, now_ms);
    // Past its window the key is free, whatever its last operation did.
    const bool is_free = own.target == Target::kNew || !MayHaveEffect(same_key->phase);
    if (own.kind != Begun::Kind::kFresh || !is_free) return own;
  }
  if (same_intent == nullptr || call.across_traces == AcrossTraces::kNever) return own;
  // Also where the key's own operation has had no effect, and would be sent again: the same call
  // may have been made under another key in its place.
  if (same_key != nullptr && same_key->operation == same_intent->operation) return own;
  if (IsPastWindow(call, *same_intent, now_ms)) return own;
  if (Repeats(call, *same_intent)) {
    return DecideKnown(call, *same_intent, Target::kSameIntent, now_ms);
  }
  if (call.across_traces == AcrossTraces::kAsk && IsAnswered(*same_intent) &&
      StatusOf(same_intent->phase) == Status::kSuccess) {
    return {.target = Target::kSameIntent, .kind = Begun::Kind::kSuspected};
  }
  return own;
}

ObserveVerdict Foresee(ObserveVerdict otherwise, Begun::Kind kind, bool is_resend) {
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
    case Begun::Kind::kFlowClosed:
    case Begun::Kind::kOtherKey:
      break;
  }
  return ObserveVerdict::kWouldRefuse;
}

}  // namespace recourse
