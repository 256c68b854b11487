#include "filters/ledger/rules/retention.h"

namespace recourse {
namespace {

// Provably nothing happened, so a repeat may be executed.
bool MayRunAgain(Phase phase) {
  return phase == Phase::kNotSent || phase == Phase::kRejected || phase == Phase::kProvenAbsent ||
         phase == Phase::kDenied || phase == Phase::kExpired;
}

}  // namespace

RetentionFate FateOf(const EventFront& front, std::uint32_t newest_generation) {
  const bool is_observed = front.verdict != ObserveVerdict::kNone;
  // What observe mode never learned stays unknown for good.
  const bool is_over = IsFinal(front.phase) || (is_observed && front.phase == Phase::kUncertain);
  if (!is_over) return RetentionFate::kCarry;
  // Repeats of observe mode have keys that nobody else has.
  if (is_observed && front.related != 0) return RetentionFate::kForget;
  // Only the newest generation of a key is ever asked for; generation 0 names it.
  if (front.generation > 0 && front.generation != newest_generation) return RetentionFate::kForget;
  return MayRunAgain(front.phase) && newest_generation == 0 ? RetentionFate::kForget
                                                            : RetentionFate::kTombstone;
}

bool IsOver(const Tombstone& tombstone, Later generations, std::int64_t lived_ms,
            std::int64_t tombstones_ms) {
  return generations == Later::kNone && lived_ms - tombstone.since_ms >= tombstones_ms;
}

}  // namespace recourse
