// What the outcome of an operation does: the operation moves, what it undid is undone, and its flow
// moves. Pure.
#pragma once

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/plan.h"

namespace recourse {

// The reply is the event of the plan's first row. Takes what it needs out of the transition once
// nothing is needed any more.
Judged<Plan> Decide(Transition& transition, Known& known);

// What a row of which the key is missing would have to repeat cannot be read.
inline Error SealedError() {
  return Error(ErrorCode::kLedgerUnavailable,
               "the operation is sealed with a key that is not among the ledger's keys",
               Delivery::kUncertain);
}
inline bool IsSealedError(const Error& error) { return error.detail() == SealedError().detail(); }

}  // namespace recourse
