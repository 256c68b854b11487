// Calls that begin and need a human: what they ask, what was said to equal ones, and the one
// dispatch that an approval is good for. Pure.
#pragma once

#include <optional>

#include "filters/ledger/rows/earlier_no.h"
#include "filters/ledger/rules/begin_plan.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

// Makes the call one that asks a human whether it repeats `found`.
void Suspect(const FoundOperation& found, bool is_same_key, NewOperation& call);

// The approval under which the call may be sent that goes on with one whose server has asked for
// input: nothing was executed under it, and nothing has changed since it was given.
Judged<std::optional<ApprovalFacts>> StandingApproval(const NewOperation& call,
                                                      const FoundOperation& found, Known& known);

// The new attempt in `event` waits for humans, or goes on under an approval that still stands.
void AskOrContinue(const ApprovalAsk& ask, std::optional<ApprovalFacts> standing,
                   const Known& known, Event& event);

struct RefusedCall {
  FoundOperation found;
  const Event* event = nullptr;  // as the rule knows it
};
// What a human refused under that KeyOfNo, not longer ago than that.
Judged<std::optional<RefusedCall>> FindNo(const Digest& key, Millis expires, Known& known);

// Of a call that was approved: compared and used up in one commit.
Judged<BeginPlan> DecideApproved(NewOperation& call, Known& known);

}  // namespace recourse
