// What a call that begins finds, and what that means. Pure.
#pragma once

#include <cstdint>

#include "filters/ledger/rules/begin_decision.h"
#include "filters/ledger/rules/begin_find.h"
#include "filters/ledger/rules/ended.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

struct BeginLookup {
  MaybeFound same_key{};     // under its key
  MaybeFound same_intent{};  // under another one
  // Whether what they did stands no more.
  Ended key_ended = Ended::kNo, intent_ended = Ended::kNo;
  bool is_refused = false;  // a human's no to an equal call stands: `same_intent`
  bool is_older = false;    // `same_key` was found under an earlier recipe
  BeginDecision decision{};

  const FoundOperation* target() const;  // that the decision is about; null: none
  const FoundOperation* fenced() const;  // what is told of a call that its flow's fence holds back
  bool would_be_made() const;  // as if there had been nothing that may have had its effect
};
// Turns the call into one that asks a human where it must.
Judged<BeginLookup> LookUp(JudgedCall& call, Known& known);

// Whether what the operation made is gone already, so that nothing has to be undone.
Judged<bool> IsGone(std::uint64_t operation, Known& known);

}  // namespace recourse
