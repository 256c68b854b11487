#include "filters/approval/approval_filter.h"

#include <algorithm>

#include "filters/answers.h"
#include "filters/call_values.h"

namespace recourse {
namespace {

bool MayPass(const RequestContext& context) {
  if (context.tool == nullptr || !context.tool->approval) return true;
  const ApprovalRule& rule = *context.tool->approval;
  const auto body = ReadCallBody(context.request);
  if (!body) return false;
  return !NeedsApproval(rule, ValuesOfCall(context, *body));
}

Outcome Refusal(const RequestContext& context) {
  std::string detail = "the tool " + context.tool_name + " needs an approval";
  const ApprovalRule& rule = *context.tool->approval;
  for (std::size_t i = 0; i < rule.by.size(); ++i) {
    detail += (i == 0 ? " by " : ", ") + rule.by[i];
  }
  detail += ", and approvals cannot be given here yet";
  Outcome outcome;
  outcome.local = MakeProblem(ErrorCode::kApprovalUnavailable, detail);
  return outcome;
}

Task<Result<Outcome>> Refuse(const RequestContext& context) { co_return Refusal(context); }

}  // namespace

bool NeedsApproval(const ApprovalRule& rule, const CallValues& values) {
  return std::all_of(rule.when.begin(), rule.when.end(), [&](const Condition& condition) {
    return Evaluate(condition, values).value_or(true);
  });
}

Task<Result<Outcome>> ApprovalFilter::Handle(RequestContext& context, Next next) {
  return MayPass(context) ? next(context) : Refuse(context);
}

}  // namespace recourse
