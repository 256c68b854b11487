// What a call that begins does: it is sent, waits for a human, repeats what was there before, or is
// refused. Pure.
#pragma once

#include <optional>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/begin_lookup.h"
#include "filters/ledger/rules/begin_plan.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

// Of one call, round by round: what was found once is not looked for again.
class BeginRule {
 public:
  explicit BeginRule(NewOperation& call) : call_(call) {}

  // Takes what it needs out of the call once nothing is needed any more.
  Judged<BeginPlan> Decide(Known& known);

 private:
  Judged<BeginPlan> DecideFound(Known& known);

  JudgedCall call_;
  std::optional<BeginLookup> lookup_;
};

}  // namespace recourse
