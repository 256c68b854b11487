#include "proxy/server/poll_answer.h"

#include <string>

#include "filters/answers.h"
#include "filters/idempotency/event_answer.h"
#include "proxy/base/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

void Text(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":");
  AppendJsonString(out, value);
}

// The answer as it is, if it is JSON in clear, so that an agent can use it at once.
void AppendAnswer(std::string& out, const HttpResponse& answer) {
  out += ",\"http_status\":" + std::to_string(answer.status);
  const std::string* const type = FindHeader(answer.headers, "Content-Type");
  if (type != nullptr) Text(out, "content_type", *type);
  if (FindHeader(answer.headers, "Content-Encoding") == nullptr && ParseJson(answer.body)) {
    out += ",\"answer\":" + answer.body;
  } else if (IsUtf8(answer.body)) {
    Text(out, "answer_text", answer.body);
  } else {
    Text(out, "answer_base64", ToBase64(answer.body));
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

HttpResponse PollAnswer(const Event& event) {
  HttpResponse response{200, "OK", {{"Content-Type", "application/json"}}, {}};
  response.headers.emplace_back("Cache-Control", "no-store");
  std::string& body = response.body;
  body = "{\"operation\":" + std::to_string(event.operation) +
         ",\"event\":" + std::to_string(event.id);
  Text(body, "status", ApprovalStatus(event.phase));
  Text(body, "outcome", OutcomeWord(event));
  if (event.answer_kept && event.answer.status != 0) {
    AppendAnswer(body, event.answer);
  } else if (!IsAwaited(event.phase)) {
    Text(body, "detail", event.detail);
  }
  if (IsAwaited(event.phase) || event.phase == Phase::kUncertain) {
    const std::string seconds = std::to_string(limits::kPollSeconds);
    body += ",\"retry_after\":" + seconds;
    response.headers.emplace_back("Retry-After", seconds);
  }
  body += "}\n";
  return response;
}

}  // namespace recourse
