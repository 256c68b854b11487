#include "filters/ledger/begin_decision.h"

namespace recourse {
namespace {

using Target = BeginDecision::Target;
using Kind = Begun::Kind;

// A clock that went back must not end a window early, so a negative age is young.
bool IsOlderThan(const KeyEntry& entry, Millis age, std::int64_t now_ms) {
  return now_ms - entry.last_wall_ms > age.count();
}

bool HasRoom(const KeyEntry& entry, const NewOperation& call) {
  return static_cast<int>(entry.attempt) < call.attempts_max;
}

BeginDecision NextAttempt(const KeyEntry& entry, const NewOperation& call, Target target) {
  if (!HasRoom(entry, call)) return {.target = target, .kind = Kind::kExhausted};
  return {.target = target,
          .kind = Kind::kFresh,
          .attempt = static_cast<std::uint16_t>(entry.attempt + 1),
          .generation = entry.generation};
}

// A repeat of the operation in `entry`, its arguments already judged. `may_resend` is false where
// the bytes to send could differ from those sent before.
BeginDecision DecideRepeat(const NewOperation& call, const KeyEntry& entry, Target target,
                           bool may_resend, std::int64_t now_ms) {
  switch (entry.phase) {
    case Phase::kNone:
    case Phase::kClaimed:
    case Phase::kApproved:
    case Phase::kDispatching:
      return {.target = target, .kind = Kind::kRunning};
    case Phase::kUncertain:
      if (may_resend && HasRoom(entry, call)) return NextAttempt(entry, call, target);
      return {.target = target, .kind = Kind::kUnknown};
    case Phase::kSucceeded:
    case Phase::kAnswerLost:
      return {.target = target, .kind = Kind::kReplay};
    case Phase::kRejected:
      if (!IsOlderThan(entry, call.failed_ttl, now_ms)) {
        return {.target = target, .kind = Kind::kReplay};
      }
      return NextAttempt(entry, call, target);
    case Phase::kNotSent:
    case Phase::kProvenAbsent:
      return NextAttempt(entry, call, target);
    case Phase::kCompensated:
      return {.target = target, .kind = Kind::kCompensated};
    case Phase::kTombstone:
      return {.target = target, .kind = Kind::kExpired};
    case Phase::kDenied:
    case Phase::kExpired:
      break;
  }
  return {.target = target, .kind = Kind::kExhausted};
}

BeginDecision DecideSameKey(const NewOperation& call, const KeyEntry& entry, std::int64_t now_ms) {
  // Past its window the key means nothing any more, so this comes before the arguments.
  if (call.dedupe_window && IsFinal(entry.phase) &&
      IsOlderThan(entry, *call.dedupe_window, now_ms)) {
    return {.generation = entry.generation + 1};
  }
  const bool same_args = entry.args_hash == call.event.args_hash;
  if (!same_args && call.on_mismatch == OnMismatch::kReject) {
    return {.target = Target::kSameKey, .kind = Kind::kConflict};
  }
  if (!same_args && call.on_mismatch == OnMismatch::kAsk) {
    return {.target = Target::kSameKey, .kind = Kind::kSuspected};
  }
  // Other arguments are never sent over an attempt of unknown outcome: the backend's own
  // de-duplication promises something for equal bytes only.
  return DecideRepeat(call, entry, Target::kSameKey, call.may_resend && same_args, now_ms);
}

bool MayHaveEffect(Phase phase) {
  return phase == Phase::kDispatching || phase == Phase::kUncertain || phase == Phase::kSucceeded ||
         phase == Phase::kAnswerLost;
}

}  // namespace

BeginDecision DecideBegin(const NewOperation& call, const KeyEntry* same_key,
                          const KeyEntry* same_intent, std::int64_t now_ms) {
  if (same_key != nullptr) return DecideSameKey(call, *same_key, now_ms);
  if (same_intent == nullptr || call.across_traces == AcrossTraces::kNever) return {};
  const KeyEntry& other = *same_intent;
  const bool counts = !other.is_answered || call.across_traces == AcrossTraces::kAlways;
  if (counts && MayHaveEffect(other.phase) && other.args_hash == call.event.args_hash) {
    return DecideRepeat(call, other, Target::kSameIntent, call.may_resend, now_ms);
  }
  if (!counts && call.across_traces == AcrossTraces::kAsk &&
      StatusOf(other.phase) == Status::kSuccess) {
    return {.target = Target::kSameIntent, .kind = Kind::kSuspected};
  }
  return {};
}

}  // namespace recourse
