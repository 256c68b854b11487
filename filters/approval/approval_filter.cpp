#include "filters/approval/approval_filter.h"

#include "filters/call/answers.h"
#include "filters/call/call_values.h"
#include "filters/ledger/model/event.h"
#include "policy/model/approval_need.h"

namespace recourse {
namespace {

bool HasRule(const RequestContext& context) {
  return context.tool != nullptr && context.tool->approval;
}

std::optional<std::string> WhyNeeded(RequestContext& context) {
  if (!HasRule(context)) return std::nullopt;
  const auto body = ReadingOf(context);
  if (!body) return "the body that decides it cannot be read";
  context.reading = *body;
  return WhyApproval(*context.tool->approval, ValuesOfCall(context, **body));
}

Task<Result<Outcome>> TooLarge() {
  Outcome outcome;
  outcome.local = MakeProblem(ErrorCode::kRequestTooLarge,
                              "a call that needs a human's approval is kept until somebody has "
                              "decided; its body may have at most 256 KiB, the rest 64 KiB");
  co_return outcome;
}

// Once it is known whether it needs one.
Task<Result<Outcome>> GoOn(RequestContext& context, Next next) {
  const HttpRequest& request = context.request;
  if (context.needs_approval &&
      !CanBeKept({request.method, request.target, request.headers, request.body})) {
    return TooLarge();
  }
  return next(context);
}

}  // namespace

Task<Result<Outcome>> ApprovalFilter::Handle(RequestContext& context, Next next) {
  if (HasRule(context) && IsLarge(context)) return JudgeApart(context, next);
  context.needs_approval = WhyNeeded(context);
  return GoOn(context, next);
}

Task<Result<Outcome>> ApprovalFilter::JudgeApart(RequestContext& context, Next next) {
  const bool has_run = co_await context.keeper->RunApart(
      [&context] { context.needs_approval = WhyNeeded(context); }, *context.executor);
  if (!has_run) co_return LocalOutcome(MakeProblem(ErrorCode::kOverloaded, kNoRoomApart));
  co_return co_await GoOn(context, next);
}

}  // namespace recourse
