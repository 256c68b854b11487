// What a call that begins means, as a pure function over what the index knows.
#pragma once

#include <cstdint>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/ended.h"
#include "filters/ledger/rules/key_entry.h"

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

// What is known when a call begins.
struct BeginFacts {
  const KeyEntry* same_key = nullptr;     // newest generation under the call's key; null: none
  const KeyEntry* same_intent = nullptr;  // of the same intent, sent last; may be the same one
  bool key_client_waits = false;          // the client of `same_key` is there still
  bool intent_client_waits = false;
  // Whether what they did stands no more (Event::stands).
  Ended key_ended = Ended::kNo, intent_ended = Ended::kNo;
  std::int64_t now_ms = 0;  // wall time
};
// Whether a call that is recognized as a retry only is another one than the operation that was
// found under its key: that one was answered, its client waits for it, or it is too long ago.
bool IsAnotherCall(const NewOperation& call, const KeyEntry& entry, bool client_waits,
                   std::int64_t now_ms);

// Whether the call repeats the operation of the same intent under another key. With other arguments
// it repeats, or collides with, an unanswered one only: after an answer it is a new call.
bool RepeatsAcross(const NewOperation& call, const KeyEntry& other, bool client_waits,
                   std::int64_t now_ms);

BeginDecision DecideBegin(const NewOperation& call, const BeginFacts& facts);

// Whether a caller with that principal may be shown what the operation was answered. What Recourse
// does by itself may see all.
inline bool MayBeShown(Principal asks, Principal owner) {
  return asks == kNoPrincipal || asks == owner;
}

// What observe mode writes down about a call that was decided so. `otherwise` is what stands when
// nothing earlier is in the way; `is_resend`: a fresh attempt over one of unknown outcome.
ObserveVerdict PredictVerdict(ObserveVerdict otherwise, Begun::Kind kind, bool is_resend);
// Of a verdict kWouldRefuse: the slug of the answer to come, what it means here, and what helps.
std::string WhyRefusalIsForeseen(Begun::Kind kind);

}  // namespace recourse
