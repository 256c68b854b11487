#include "proxy/traffic/seen_mcp.h"

#include <utility>

#include "filters/call/traceparent.h"
#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_codec.h"
#include "filters/mcp/mcp_request.h"
#include "policy/import/mcp_import.h"

namespace recourse {
namespace {

Result<Answer> McpAnswerOf(const SeenCall& call, const HttpRequest& request) {
  Answer answer;
  answer.response.status = call.status;
  answer.response.headers.emplace_back("Content-Type", call.answer_type);
  answer.response.body = call.answer;
  return McpCodec().ReadRecorded(std::move(answer), request);
}

// False: the call goes on.
bool TakeSeenResult(const Result<Answer>& answer, SeenMcp& made) {
  if (!answer) return true;
  made.status = answer->response.status;
  if (!answer->message) return made.status < 200 || made.status >= 300;
  switch (*answer->message) {
    case MessageKind::kInputRequired:
      return false;
    case MessageKind::kToolError:
    case MessageKind::kRefused:
      made.status = 400;
      break;
    case MessageKind::kError:
      made.status = 500;
      break;
    case MessageKind::kTask:
      break;
    case MessageKind::kResult:
      if (const auto message = ParseJson(answer->response.body)) {
        made.output = McpToolOutput(*message);
      }
      break;
  }
  return true;
}

std::vector<SeenHint> HintsIn(const Result<Answer>& answer) {
  std::vector<SeenHint> hints;
  const auto message = answer ? ParseJson(answer->response.body) : Result<Json>(Json());
  const Json* const result = message && IsObject(&*message) ? message->Find("result") : nullptr;
  McpServerInfo server;
  if (result == nullptr || !AddMcpTools(*result, server)) return hints;
  for (McpToolInfo& tool : server.tools) {
    hints.push_back({std::move(tool.name), tool.read_only.value_or(false)});
  }
  return hints;
}

}  // namespace

std::optional<SeenMcp> ReadSeenMcp(const SeenCall& call) {
  HttpRequest request;
  request.headers.emplace_back("Content-Type", call.content_type);
  request.body = call.body;
  auto messages = ReadMcpRequest(request.headers, call.body);
  if (!messages || messages->size() != 1) return std::nullopt;
  McpRequest& message = messages->front();
  const bool is_call = message.kind == McpRequest::Kind::kToolCall;
  // A glob, or no name that a policy could have, is nobody's tool.
  if (is_call && (!CheckMcpName(message.tool).empty() || IsMcpGlob(message.tool))) {
    return std::nullopt;
  }
  if (!is_call && message.method != "tools/list") return std::nullopt;
  const auto answer = McpAnswerOf(call, request);
  SeenMcp made;
  if (!is_call) {
    made.hints = HintsIn(answer);
    if (made.hints.empty()) return std::nullopt;
    return made;
  }
  if (!TakeSeenResult(answer, made)) return std::nullopt;
  made.tool = std::move(message.tool);
  made.arguments = std::move(message.arguments);
  made.intent = std::move(message.intent);
  if (const auto trace = ParseTraceparent(message.traceparent)) made.trace_id = trace->trace_id;
  return made;
}

}  // namespace recourse
