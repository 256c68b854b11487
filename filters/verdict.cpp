#include "filters/verdict.h"

#include <algorithm>
#include <utility>

namespace recourse {

void ReplaceCutAnswer(const Answer& answer, Verdict& verdict) {
  if (answer.body_complete && (!answer.over_cap || answer.relayed)) return;
  verdict.detail += "; ";
  verdict.detail += !answer.withheld.empty() ? answer.withheld
                    : answer.over_cap        ? "its answer was too large"
                                             : "its answer was cut off";
  if (verdict.phase == Phase::kUncertain) {
    verdict.problem = ErrorCode::kOutcomeUnknown;
    verdict.problem_status = kBadGateway;
    verdict.proxy_error = "http_response_incomplete";
  } else {
    verdict.problem = answer.over_cap ? ErrorCode::kBackendProtocol : ErrorCode::kBackendReset;
  }
}

Verdict UnclearAnswer(const Answer& answer, Cause cause, std::string detail) {
  Verdict verdict;
  verdict.phase = Phase::kUncertain;
  verdict.cause = cause;
  verdict.http_status = answer.response.status;
  verdict.detail = std::move(detail);
  ReplaceCutAnswer(answer, verdict);
  return verdict;
}

bool AnyHolds(const std::vector<Condition>& conditions, const CallValues& values) {
  return std::any_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
    return Evaluate(condition, values).value_or(false);
  });
}

Confirmed JudgeSuccess(const Tool& tool, const CallValues& values) {
  Confirmed all = Confirmed::kYes;
  for (const Condition& condition : tool.success_when) {
    const std::optional<bool> holds = Evaluate(condition, values);
    if (holds && !*holds) return Confirmed::kNo;
    if (!holds) all = Confirmed::kUnclear;
  }
  return all;
}

}  // namespace recourse
