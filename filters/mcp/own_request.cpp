#include "filters/mcp/own_request.h"

#include <algorithm>
#include <array>

#include "filters/mcp/mcp_answer.h"
#include "filters/mcp/mcp_message.h"
#include "proxy/base/crypto/base64url.h"
#include "proxy/base/json/json_span.h"

namespace recourse {
namespace {

constexpr std::string_view kSession = "Mcp-Session-Id";
constexpr std::string_view kVersion = "MCP-Protocol-Version";

std::string FieldOr(const Headers& headers, std::string_view name, std::string_view otherwise) {
  const std::string* const value = FindHeader(headers, name);
  return std::string(value == nullptr ? otherwise : std::string_view(*value));
}

void AddIfMissing(Headers& headers, std::string_view name, std::string_view value) {
  if (FindHeader(headers, name) == nullptr) headers.emplace_back(name, value);
}

// A tool's name as a field holds it: as it is, or in base64 where that could be read otherwise.
std::string FieldForm(const std::string& name) {
  const bool is_plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; }) &&
      !name.starts_with(' ') && !name.ends_with(' ') && !name.starts_with("=?base64?");
  if (is_plain) return name;
  std::string digits = ToBase64Url(name);
  std::replace(digits.begin(), digits.end(), '-', '+');
  std::replace(digits.begin(), digits.end(), '_', '/');
  while (digits.size() % 4 != 0) digits.push_back('=');
  return "=?base64?" + digits + "?=";
}

// Puts the `_meta` of the protocol into params that have none.
void AddMeta(std::string& body, std::string_view version) {
  if (FindJsonSpan(body, "/params/_meta")) return;
  const auto params = FindJsonSpan(body, "/params");
  if (!params) return;
  PrependMembers(body, params->at, [&](JsonObject& json) { WriteMcpMeta(json, version); });
}

// `call` with another body, under no key of the backend's: it is not the call.
HttpRequest Beside(const HttpRequest& call, std::string_view method, std::string body) {
  static constexpr std::array<std::string_view, 6> kOfTheCall{"Idempotency-Key", "Mcp-Method",
                                                              "Mcp-Name",        "Last-Event-ID",
                                                              "Content-Length",  "traceparent"};
  HttpRequest request{std::string(method), call.target, call.headers, std::move(body)};
  std::erase_if(request.headers, [](const Header& field) {
    return std::any_of(kOfTheCall.begin(), kOfTheCall.end(),
                       [&](std::string_view name) { return EqualsIgnoreCase(field.first, name); });
  });
  if (request.body.empty()) RemoveHeader(request.headers, "Content-Type");
  return request;
}

}  // namespace

HttpRequest OwnCall(HttpRequest request, const McpRequest& call, std::string_view id) {
  if (const auto span = FindJsonSpan(request.body, "/id")) {
    request.body.replace(span->at, span->size, id);
  }
  AddIfMissing(request.headers, "Content-Type", "application/json");
  AddIfMissing(request.headers, "Accept", "application/json, text/event-stream");
  if (call.era != McpEra::kModern) return request;
  const std::string version = FieldOr(request.headers, kVersion, kModernMcp);
  AddMeta(request.body, version);
  AddIfMissing(request.headers, kVersion, version);
  AddIfMissing(request.headers, "Mcp-Method", call.method);
  const std::string& name = call.tool.empty() ? call.task : call.tool;
  if (!name.empty()) AddIfMissing(request.headers, "Mcp-Name", FieldForm(name));
  return request;
}

bool IsSessionLost(const Answer& answer) {
  const int status = answer.response.status;
  if (status != 404 && status != 400) return false;
  return !answer.message || *answer.message == MessageKind::kError;
}

HttpRequest InitializeRequest(const HttpRequest& call, std::string_view id) {
  HttpRequest request =
      Beside(call, "POST", McpMessage(id, [&](JsonObject& json) {
               json.Text("method", "initialize");
               JsonObject params = json.Object("params");
               params.Text("protocolVersion", FieldOr(call.headers, kVersion, kLegacyMcp));
               params.Raw("capabilities", "{}");
               WriteMcpClient(params, "clientInfo");
             }));
  RemoveHeader(request.headers, kSession);
  RemoveHeader(request.headers, kVersion);
  return request;
}

HttpRequest InitializedRequest(const HttpRequest& call) {
  return Beside(call, "POST", R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
}

HttpRequest EndSessionRequest(const HttpRequest& call) { return Beside(call, "DELETE", {}); }

HttpRequest ResumeRequest(const HttpRequest& call, const std::string& last_event_id) {
  HttpRequest request = Beside(call, "GET", {});
  SetHeader(request.headers, "Accept", "text/event-stream");
  SetHeader(request.headers, "Last-Event-ID", last_event_id);
  return request;
}

HttpRequest InSession(HttpRequest call, const Answer& initialized) {
  RemoveHeader(call.headers, kSession);
  if (const std::string* id = FindHeader(initialized.response.headers, kSession)) {
    SetHeader(call.headers, kSession, *id);
  }
  const auto message = ParseJson(initialized.response.body);
  const Json* const version = message ? AtPointer(*message, "/result/protocolVersion") : nullptr;
  if (version != nullptr && version->kind == Json::Kind::kString && IsFieldValue(version->text)) {
    SetHeader(call.headers, kVersion, version->text);
  }
  return call;
}

}  // namespace recourse
