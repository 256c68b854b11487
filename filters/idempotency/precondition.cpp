#include "filters/idempotency/precondition.h"

#include "filters/call/call_values.h"
#include "filters/call/snapshots.h"
#include "filters/call/upstream_request.h"
#include "policy/undo/own_part.h"

namespace recourse {
namespace {

constexpr int kChangedMeanwhile = 412;

}  // namespace

std::string IfMatchOf(const RequestContext& context, const CallBody& body, const Event& begun) {
  const bool may_ask = begun.state && begun.cause != Cause::kResend && context.approved == 0 &&
                       !IsLoggedOnly(context) && !KeyOf(context).at.exists() &&
                       !context.tag_is_refused;
  if (!may_ask || context.tool == nullptr || !context.tool->before) return {};
  return VersionToFind(*context.tool, *begun.state, context.request, context.path,
                       ValuesOfCall(context, body));
}

bool HasLostRace(const RequestContext& context, const Verdict& verdict) {
  return !context.if_match.empty() && verdict.http_status == kChangedMeanwhile;
}

Verdict OfLostRace(RequestContext& context, const CallValues& values) {
  Verdict verdict;
  verdict.http_status = kChangedMeanwhile;
  const bool is_unmade = values.before != nullptr && context.before && context.before->state &&
                         ShowsUnmade(*context.tool, context.request.method, values, *values.before,
                                     context.before->state->before);
  if (!is_unmade) {
    verdict.detail =
        "it changed between the look at it and the call, by somebody else or by the call itself, "
        "if something on the way sent that twice";
    verdict.problem = ErrorCode::kOutcomeUnknown;
    return verdict;
  }
  verdict.phase = Phase::kNotSent;
  context.tag_is_refused = TagOf(context.before->state->before.version) == context.if_match;
  verdict.detail =
      context.tag_is_refused
          ? "the backend refused the version that it shows: nothing was done"
          : "somebody else changed it between the look at it and the call: nothing was done";
  verdict.problem = ErrorCode::kNotSent;
  return verdict;
}

Verdict OfVanished(Verdict verdict, const RequestContext& context, const Event& dispatching) {
  const int status = verdict.http_status;
  const bool finds_nothing = (status == 404 || status == 410) && context.request.method == "DELETE";
  const bool is_refused = verdict.phase == Phase::kRejected || verdict.phase == Phase::kNotSent;
  const bool was_there =
      dispatching.state && dispatching.state->request.method == "GET" &&
      ReadsWhatIsWritten(dispatching.state->request.target, context.path, context.request.target);
  if (!finds_nothing || !is_refused || !was_there) return verdict;
  if (context.tool->not_executed.Contains(status)) return verdict;
  verdict.phase = Phase::kUncertain;
  verdict.cause = Cause::kServerError;
  verdict.detail +=
      ", and a look just before found it there: somebody else has deleted it since, or the call "
      "itself, if something on the way sent that twice";
  if (verdict.problem) verdict.problem = ErrorCode::kOutcomeUnknown;
  return verdict;
}

}  // namespace recourse
