#include "proxy/drill/mcp_message.h"

#include <array>
#include <string_view>
#include <utility>

#include "filters/call/call_values.h"
#include "filters/mcp/mcp_message.h"
#include "filters/mcp/mcp_request.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

constexpr int kInvalidParams = -32602;

const Json* TrueAt(const Json& json, std::string_view pointer) {
  const Json* const value = AtPointer(json, pointer);
  return value != nullptr && value->kind == Json::Kind::kTrue ? value : nullptr;
}

}  // namespace

void WriteMcpCall(const Backend& backend, const std::string& tool, const Json& arguments,
                  HttpRequest& request) {
  request.method = "POST";
  request.target = backend.endpoint;
  request.body = McpMessage("1", [&](JsonObject& json) {
    json.Text("method", kToolsCall);
    JsonObject params = json.Object("params");
    params.Text("name", tool);
    params.Raw("arguments", CanonicalJson(arguments));
    WriteMcpMeta(params, kModernMcp);
  });
  SetHeader(request.headers, "Content-Type", "application/json");
  SetHeader(request.headers, "Accept", "application/json, text/event-stream");
  SetHeader(request.headers, "MCP-Protocol-Version", std::string(kModernMcp));
  SetHeader(request.headers, "Mcp-Method", std::string(kToolsCall));
  SetHeader(request.headers, "Mcp-Name", tool);
}

std::optional<McpCall> ReadMcpCall(const Backend& backend, const HttpRequest& request) {
  if (!backend.is_mcp() || !IsEndpointMessage(backend, request)) return std::nullopt;
  const auto message = ParseJson(request.body);
  const Json* const id = message ? message->Find("id") : nullptr;
  const Json* const tool = message ? AtPointer(*message, "/params/name") : nullptr;
  const Json* const arguments = message ? AtPointer(*message, "/params/arguments") : nullptr;
  if (id == nullptr || tool == nullptr || arguments == nullptr) return std::nullopt;
  return McpCall{CanonicalJson(*id), tool->text + ' ' + CanonicalJson(*arguments)};
}

HttpResponse McpAnswer(const McpCall& call, const HttpResponse& output) {
  std::string body = McpMessage(call.id, [&](JsonObject& json) {
    if (output.status < 200 || output.status > 299) {
      JsonObject error = json.Object("error");
      error.Number("code", kInvalidParams);
      error.Text("message", "refused by the drill");
      return;
    }
    JsonObject result = json.Object("result");
    result.Text("resultType", "complete");
    result.Each("content", std::array{output.body}, [](std::string& out, const std::string& text) {
      JsonObject item(out);
      item.Text("type", "text");
      item.Text("text", text);
    });
    result.Raw("structuredContent", output.body);
  });
  return {200, "", {{"Content-Type", "application/json"}}, std::move(body)};
}

std::optional<McpReply> ReadMcpAnswer(const HttpResponse& answer) {
  const auto message = ParseJson(answer.body);
  if (!message || message->kind != Json::Kind::kObject) return std::nullopt;
  McpReply told;
  told.is_retryable = TrueAt(*message, "/result/_meta/dev.recourse~1retryable") != nullptr;
  const Json* const result = message->Find("result");
  told.is_done = result != nullptr && TrueAt(*result, "/isError") == nullptr;
  if (const Json* const output = AtPointer(*message, "/result/structuredContent")) {
    told.output = CanonicalJson(*output);
  }
  return told;
}

}  // namespace recourse
