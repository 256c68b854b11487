// What a call that begins means, as a pure function over what the index knows.
#pragma once

#include <cstdint>

#include "filters/ledger/key_entry.h"
#include "filters/ledger/ledger.h"

namespace recourse {

struct BeginDecision {
  enum class Target : std::uint8_t {
    kNew,         // a new operation
    kSameKey,     // the operation found under the key
    kSameIntent,  // the operation found under the intent: the key becomes its alias
  };
  Target target = Target::kNew;
  Begun::Kind kind = Begun::Kind::kFresh;
  // kFresh only.
  std::uint16_t attempt = 1;
  std::uint32_t generation = 0;

  bool operator==(const BeginDecision&) const = default;
};

// `same_key` is the newest generation under the call's key, `same_intent` the operation of the same
// intent that was sent last; either may be null, and both may be one operation. `now_ms` is wall
// time.
BeginDecision DecideBegin(const NewOperation& call, const KeyEntry* same_key,
                          const KeyEntry* same_intent, std::int64_t now_ms);

// What observe mode writes down about a call that was decided so. `otherwise` is what stands when
// nothing earlier is in the way; `is_resend`: a fresh attempt over one of unknown outcome.
ObserveVerdict Foresee(ObserveVerdict otherwise, Begun::Kind kind, bool is_resend);

}  // namespace recourse
