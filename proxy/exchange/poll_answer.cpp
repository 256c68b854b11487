#include "proxy/exchange/poll_answer.h"

#include <string>
#include <string_view>

#include "filters/call/answers.h"
#include "filters/key/event_answer.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

// Nobody sends the call again of itself: an approval is good for one attempt.
constexpr std::string_view kMakeItAgain =
    "The call was not executed, and the approval is used up: make the same call again to ask for a "
    "new one.";

// The answer as it is, if it is JSON in clear, so that an agent can use it at once.
void WriteBackendAnswer(JsonObject& json, const HttpResponse& answer) {
  json.Number("http_status", answer.status);
  const std::string* const type = FindHeader(answer.headers, "Content-Type");
  if (type != nullptr) json.Text("content_type", *type);
  if (FindHeader(answer.headers, "Content-Encoding") == nullptr && ParseJson(answer.body)) {
    json.Raw("answer", answer.body);
  } else if (IsUtf8(answer.body)) {
    json.Text("answer_text", answer.body);
  } else {
    json.Text("answer_base64", ToBase64(answer.body));
  }
}

}  // namespace

std::string_view ApprovalStatus(Phase phase) {
  switch (phase) {
    case Phase::kClaimed:
      return "waiting";
    case Phase::kApproved:
      return "approved";
    case Phase::kDispatching:
      return "running";
    case Phase::kUncertain:
      return "unknown";
    case Phase::kNotSent:
    case Phase::kProvenAbsent:
      return "not_executed";
    case Phase::kDenied:
      return "rejected";
    case Phase::kExpired:
      return "expired";
    case Phase::kCompensated:
      return "compensated";
    default:
      return "finished";
  }
}

HttpResponse PollAnswer(const Event& event, bool may_see) {
  HttpResponse response{200, "OK", {{"Content-Type", "application/json"}}, {}};
  response.headers.emplace_back("Cache-Control", "no-store");
  {
    JsonObject json(response.body);
    json.Raw("operation", RowIdJson(event.operation));
    json.Raw("event", RowIdJson(event.id));
    json.Text("status", ApprovalStatus(event.phase));
    json.Text("outcome", OutcomeWord(event));
    if (!may_see && !IsAwaited(event.phase)) {
      json.Text("detail", "its answer is shown to the credentials that made the call");
    } else if (event.answer_kept && event.answer.status != 0) {
      WriteBackendAnswer(json, event.answer);
    } else if (!IsAwaited(event.phase)) {
      json.Text("detail", event.detail);
    }
    if (event.phase == Phase::kNotSent || event.phase == Phase::kProvenAbsent) {
      json.Text("message", kMakeItAgain);
    }
    if (IsAwaited(event.phase) || event.phase == Phase::kUncertain) {
      json.Number("retry_after", limits::kPollSeconds);
      response.headers.emplace_back("Retry-After", std::to_string(limits::kPollSeconds));
    }
  }
  response.body += "\n";
  return response;
}

}  // namespace recourse
