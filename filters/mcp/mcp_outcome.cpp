#include "filters/mcp/mcp_outcome.h"

#include <fmt/format.h>

#include "filters/endpoint_redirect.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/status_proofs.h"

namespace recourse {
namespace {

constexpr int kAccepted = 202;

// "the server refused it: no such tool".
std::string Words(std::string_view what, const Json& message) {
  const std::string said = McpFailureText(message);
  return said.empty() ? std::string(what) : fmt::format("{}: {}", what, said);
}

Verdict Of(Phase phase, int status, std::string detail) {
  Verdict verdict;
  verdict.phase = phase;
  verdict.http_status = status;
  verdict.detail = std::move(detail);
  return verdict;
}

Verdict Unknown(int status, std::string detail) {
  Verdict verdict =
      Of(Phase::kUncertain, status, std::move(detail) + ", which does not tell whether it acted");
  verdict.cause = Cause::kServerError;
  return verdict;
}

// Errors about header fields, versions and capabilities: the client repairs them and calls again.
bool IsAboutTheProtocol(const Json& message) {
  const Json* const code = AtPointer(message, "/error/code");
  if (code == nullptr || code->kind != Json::Kind::kNumber) return false;
  const std::string text = ScalarText(*code);
  return text == "-32020" || text == "-32021" || text == "-32022";
}

Verdict OfToolError(const Tool& tool, int status, const Json& message, const CallValues& values) {
  for (const Condition& condition : tool.failed_when) {
    if (!Evaluate(condition, values).value_or(false)) continue;
    return Of(Phase::kRejected, status, "the tool failed, and says " + condition.text);
  }
  if (tool.on_error == OnError::kNotExecuted) {
    return Of(Phase::kRejected, status, Words("the tool failed", message));
  }
  Verdict verdict = Of(Phase::kUncertain, status,
                       Words("the tool failed, which does not tell whether it acted", message));
  verdict.cause = Cause::kServerError;
  return verdict;
}

// A refusal over HTTP: of a session, a credential, a header field. The client repairs that, and
// calls again at once.
bool IsHttpRefusal(const Tool& tool, int status) {
  return ProofOf(status) != StatusProof::kNone || tool.not_executed.Contains(status);
}

// Never passed on. Only some prove that nothing was executed: 303 may be the answer to a call that
// was.
Verdict OfRedirect(const Tool& tool, const Answer& answer) {
  const int status = answer.response.status;
  const std::string* const location = FindHeader(answer.response.headers, "Location");
  std::string text = RedirectText(location == nullptr ? std::string_view() : *location);
  if (answer.message || !IsHttpRefusal(tool, status)) {
    Verdict verdict = Unknown(status, std::move(text));
    verdict.problem = ErrorCode::kOutcomeUnknown;
    verdict.problem_status = kBadGateway;
    verdict.proxy_error = "http_protocol_error";
    return verdict;
  }
  Verdict verdict = Of(Phase::kNotSent, status, std::move(text));
  verdict.problem = ErrorCode::kBackendProtocol;
  return verdict;
}

}  // namespace

std::optional<Verdict> OfMcpAnswer(const Tool& tool, const Answer& answer,
                                   const CallValues& values) {
  if (answer.codec == nullptr) return std::nullopt;
  const int status = answer.response.status;
  if (IsRedirect(status)) return OfRedirect(tool, answer);
  const MessageKind kind = answer.message.value_or(MessageKind::kError);
  if (kind == MessageKind::kResult && IsSuccess(status)) return std::nullopt;
  const auto parsed = answer.message ? ParseJson(answer.response.body) : Result<Json>(Json());
  const Json message = parsed.value_or(Json());
  const bool says_no = kind == MessageKind::kError || kind == MessageKind::kRefused;
  if (says_no && !IsSuccess(status)) {
    if (!IsHttpRefusal(tool, status)) return std::nullopt;
    return Of(Phase::kNotSent, status,
              Words(fmt::format("the server answered {}", status), message));
  }
  switch (kind) {
    case MessageKind::kResult:
      return Unknown(status, fmt::format("the server answered {} with a result", status));
    case MessageKind::kToolError:
      return OfToolError(tool, status, message, values);
    case MessageKind::kRefused:
      return Of(IsAboutTheProtocol(message) ? Phase::kNotSent : Phase::kRejected, status,
                Words("the server refused the call", message));
    case MessageKind::kError:
      return Unknown(status, Words("the server answered with an error", message));
    case MessageKind::kInputRequired: {
      Verdict verdict = Of(Phase::kNotSent, status, "the server asks for input before it acts");
      verdict.cause = Cause::kAsksInput;
      return verdict;
    }
    case MessageKind::kTask:
      return Of(Phase::kUncertain, kAccepted, "the server has taken it on, and not finished");
  }
  return std::nullopt;
}

}  // namespace recourse
