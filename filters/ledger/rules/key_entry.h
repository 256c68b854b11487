// What the key index knows about one key.
#pragma once

#include <cstdint>

#include "filters/ledger/model/event.h"

namespace recourse {

struct KeyEntry {
  std::uint64_t operation = 0;
  std::uint64_t last_event = 0;   // row that holds the operation's state
  std::int64_t last_wall_ms = 0;  // wall time of that row: of the outcome once it is final
  Digest args_hash{};
  Principal principal = kNoPrincipal;
  std::uint32_t generation = 0;
  std::uint32_t newest_generation = 0;  // kept at generation 0: which generation answers now
  std::uint16_t attempt = 0;
  Phase phase = Phase::kNone;
  Cause cause = Cause::kNone;  // of its last event
  bool is_answered = false;
  bool is_tombstone = false;  // the operation is no longer kept; `phase` is its last one
  // This generation stands for `operation`, which has another key and tells the rest: here only the
  // row, its wall time and the generations mean something.
  bool is_alias = false;
};

// The key of the `generation`th operation that uses the key `base`.
Digest KeyOfGeneration(const Digest& base, std::uint32_t generation);

// Under which an intent is looked for: that of another principal is another call.
Digest KeyOfIntent(const Digest& intent, Principal principal);

// Under which the operation is looked for that was sent last before that one.
Digest KeyOfBefore(const Digest& intent, std::uint64_t operation);

// Of equal calls of one key, or of one intent, so many are looked at for one that is unfinished.
inline constexpr std::uint32_t kEqualCallsLooked = 32;

// Its effect stands, as far as its own rows tell.
inline bool IsExecuted(Phase phase) {
  return phase == Phase::kSucceeded || phase == Phase::kAnswerLost;
}

// Neither open nor waiting, and whatever it did was answered.
inline bool IsOver(const KeyEntry& entry) {
  return entry.is_tombstone || !(IsClaim(entry.phase) || MayHaveEffect(entry.phase)) ||
         (entry.is_answered && !IsOpen(entry.phase));
}

}  // namespace recourse
