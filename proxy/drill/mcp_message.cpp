#include "proxy/drill/mcp_message.h"

#include <string_view>
#include <utility>

#include "filters/call/call_values.h"
#include "filters/mcp/mcp_request.h"
#include "policy/model/mcp_names.h"

namespace recourse {
namespace {

constexpr int kInvalidParams = -32602;

std::string Quoted(std::string_view text) {
  Json json;
  json.kind = Json::Kind::kString;
  json.text = text;
  return CanonicalJson(json);
}

const Json* TrueAt(const Json& json, std::string_view pointer) {
  const Json* const value = AtPointer(json, pointer);
  return value != nullptr && value->kind == Json::Kind::kTrue ? value : nullptr;
}

}  // namespace

void WriteMcpCall(const Backend& backend, const std::string& tool, const Json& arguments,
                  HttpRequest& request) {
  request.method = "POST";
  request.target = backend.endpoint;
  request.body = R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":)" +
                 Quoted(tool) + R"(,"arguments":)" + CanonicalJson(arguments) +
                 R"(,"_meta":{"io.modelcontextprotocol/protocolVersion":")" +
                 std::string(kModernMcp) +
                 R"(","io.modelcontextprotocol/clientInfo":{"name":"drill","version":"1"},)"
                 R"("io.modelcontextprotocol/clientCapabilities":{}}}})";
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
  std::string body = R"({"jsonrpc":"2.0","id":)" + call.id;
  if (output.status < 200 || output.status > 299) {
    body += R"(,"error":{"code":)" + std::to_string(kInvalidParams) +
            R"(,"message":"refused by the drill"}})";
  } else {
    body += R"(,"result":{"resultType":"complete","content":[{"type":"text","text":)" +
            Quoted(output.body) + R"(}],"structuredContent":)" + output.body + "}}";
  }
  return {200, "", {{"Content-Type", "application/json"}}, std::move(body)};
}

std::optional<McpTold> ReadMcpAnswer(const HttpResponse& answer) {
  const auto message = ParseJson(answer.body);
  if (!message || message->kind != Json::Kind::kObject) return std::nullopt;
  McpTold told;
  told.is_retryable = TrueAt(*message, "/result/_meta/dev.recourse~1retryable") != nullptr;
  const Json* const result = message->Find("result");
  told.is_done = result != nullptr && TrueAt(*result, "/isError") == nullptr;
  if (const Json* const output = AtPointer(*message, "/result/structuredContent")) {
    told.output = CanonicalJson(*output);
  }
  return told;
}

}  // namespace recourse
