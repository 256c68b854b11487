// What a human's word, or the end of the time for it, makes of an operation that waits. Pure.
#pragma once

#include <string>

#include "filters/ledger/model/approval.h"
#include "filters/ledger/rules/known.h"
#include "filters/ledger/rules/plan.h"

namespace recourse {

struct ApprovalPlan {
  Plan plan;
  ApprovalOutcome reply;  // with the event of the plan's first row, if it has one
};
Judged<ApprovalPlan> Decide(const ApprovalOrder& order, Known& known);

// It is not sent any more.
void EndApproval(Cause cause, std::string detail, ApprovalState approval, Plan& plan);

}  // namespace recourse
