#include "filters/mcp/mcp_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "filters/mcp/mcp_message.h"
#include "filters/mcp/param_fields.h"
#include "policy/model/tool_names.h"
#include "policy/uri/twins.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/json/json_span.h"
#include "proxy/base/message_limits.h"

namespace recourse {
namespace {

constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kHeaderMismatch = -32020;

// They change nothing that outlives the client's session.
constexpr std::array<std::string_view, 17> kReads{"initialize",
                                                  "server/discover",
                                                  "ping",
                                                  "tools/list",
                                                  "prompts/list",
                                                  "prompts/get",
                                                  "resources/list",
                                                  "resources/templates/list",
                                                  "resources/read",
                                                  "resources/subscribe",
                                                  "resources/unsubscribe",
                                                  "tasks/get",
                                                  "tasks/list",
                                                  "tasks/result",
                                                  "logging/setLevel",
                                                  "completion/complete",
                                                  "subscriptions/listen"};

// The method that a lenient server could take `method` for although it is another one.
std::string_view MethodTwin(std::string_view method) {
  if (method == kToolsCall || std::ranges::find(kReads, method) != kReads.end()) return {};
  if (AreTwins(NameIn::kMcp, method, kToolsCall)) return kToolsCall;
  const auto twin = std::ranges::find_if(
      kReads, [method](std::string_view known) { return AreTwins(NameIn::kMcp, method, known); });
  return twin == kReads.end() ? std::string_view() : *twin;
}

// The member of `object` that a lenient reader could take for `name` although it is another one.
const std::string* TwinOf(const Json& object, std::string_view name) {
  for (const Json::Member& member : object.members) {
    if (member.first != name && AreTwins(NameIn::kJson, member.first, name)) return &member.first;
  }
  return nullptr;
}

const std::string* TwinOfAny(const Json& object, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const std::string* twin = TwinOf(object, name)) return twin;
  }
  return nullptr;
}

std::vector<std::string_view> FieldsOf(const Headers& headers, std::string_view name) {
  std::vector<std::string_view> values;
  for (const Header& field : headers) {
    if (EqualsIgnoreCase(field.first, name)) values.emplace_back(field.second);
  }
  return values;
}

bool IsModernVersion(std::string_view version) { return version >= kModernMcp; }

// Reads one message; `at` is its pointer in the body.
class MessageReader {
 public:
  MessageReader(const Headers& headers, std::string_view body, const Json& message, std::string at)
      : headers_(headers), body_(body), message_(message), at_(std::move(at)) {}

  std::expected<McpRequest, McpRefusal> Read() {
    if (message_.kind != Json::Kind::kObject) return Invalid("a message is a JSON object");
    if (const Json* id = message_.Find("id")) {
      if (id->kind != Json::Kind::kString && id->kind != Json::Kind::kNumber) {
        return Invalid("an id is text or a number");
      }
      const auto span = FindJsonSpan(body_, at_ + "/id");
      request_.id = std::string(body_.substr(span->at, span->size));
    }
    if (TextAt(message_, "/jsonrpc") != "2.0") return Invalid("jsonrpc is \"2.0\"");
    if (const std::string* twin =
            TwinOfAny(message_, {"jsonrpc", "id", "method", "params", "result", "error"})) {
      return Invalid("the member " + ShownName(*twin) + " has two readings");
    }
    if (auto refusal = ReadMethod()) return std::unexpected(std::move(*refusal));
    if (auto refusal = ReadParams()) return std::unexpected(std::move(*refusal));
    if (auto refusal = ReadEra()) return std::unexpected(std::move(*refusal));
    return std::move(request_);
  }

 private:
  using Refusal = std::optional<McpRefusal>;

  McpRefusal Refused(int code, std::string why) const {
    return {400, code, std::move(why), request_.id.empty() ? "null" : request_.id};
  }
  std::unexpected<McpRefusal> Invalid(std::string why) const {
    return std::unexpected(Refused(kInvalidRequest, std::move(why)));
  }

  Refusal ReadMethod() {
    const bool is_response =
        message_.Find("result") != nullptr || message_.Find("error") != nullptr;
    const Json* const method = message_.Find("method");
    if (method == nullptr) {
      if (!is_response) return Refused(kInvalidRequest, "a message has a method");
      request_.kind = McpRequest::Kind::kPass;
      return {};
    }
    if (is_response) return Refused(kInvalidRequest, "a request has no result and no error");
    if (method->kind != Json::Kind::kString || method->text.empty()) {
      return Refused(kInvalidRequest, "a method is text");
    }
    request_.method = method->text;
    if (const std::string_view twin = MethodTwin(request_.method); !twin.empty()) {
      return Refused(kInvalidRequest, fmt::format("some servers take the method '{}' for {}: write "
                                                  "that",
                                                  ShownName(request_.method), twin));
    }
    if (request_.id.empty()) {
      // A server may execute what it would not answer.
      if (!request_.method.starts_with("notifications/")) {
        return Refused(kInvalidRequest, "the request " + request_.method + " has no id");
      }
      request_.kind = McpRequest::Kind::kPass;
    } else if (request_.method == kToolsCall) {
      request_.kind = McpRequest::Kind::kToolCall;
    } else if (std::find(kReads.begin(), kReads.end(), request_.method) != kReads.end()) {
      request_.kind = McpRequest::Kind::kRead;
    }
    return {};
  }

  Refusal ReadParams() {
    request_.arguments.kind = Json::Kind::kObject;
    const Json* const params = message_.Find("params");
    if (params != nullptr && params->kind == Json::Kind::kObject) {
      if (const std::string* twin =
              TwinOfAny(*params, {"name", "arguments", "_meta", "requestState", "uri", "task"})) {
        return Refused(kInvalidRequest,
                       "the member params." + ShownName(*twin) + " has two readings");
      }
    } else if (params != nullptr && request_.kind == McpRequest::Kind::kToolCall) {
      return Refused(kInvalidRequest, "the params of tools/call are an object");
    }
    request_.request_state = TextAt(message_, "/params/requestState");
    request_.traceparent = TextAt(message_, "/params/_meta/traceparent");
    if (const Json* intent = AtPointer(message_, "/params/_meta/dev.recourse~1intent")) {
      if (intent->kind != Json::Kind::kString || intent->text.empty()) {
        return Refused(kInvalidRequest, "params._meta[\"dev.recourse/intent\"] is text");
      }
      request_.intent = intent->text;
    }
    if (request_.method.starts_with("tasks/")) request_.task = TextAt(message_, "/params/taskId");
    if (request_.kind != McpRequest::Kind::kToolCall) return {};
    request_.tool = TextAt(message_, "/params/name");
    if (request_.tool.empty() || request_.tool.size() > limits::kCalledNameBytesMax) {
      return Refused(
          kInvalidRequest,
          fmt::format("params.name of tools/call is the name of a tool, of 1 to {} bytes",
                      limits::kCalledNameBytesMax));
    }
    if (const Json* arguments = AtPointer(message_, "/params/arguments")) {
      if (arguments->kind != Json::Kind::kObject) {
        return Refused(kInvalidRequest, "params.arguments of tools/call is an object");
      }
      request_.arguments = *arguments;
    }
    return {};
  }

  Refusal ReadEra() {
    const std::string_view version =
        TextAt(message_, "/params/_meta/io.modelcontextprotocol~1protocolVersion");
    const auto versions = FieldsOf(headers_, "MCP-Protocol-Version");
    const bool is_modern =
        IsModernVersion(version) || std::any_of(versions.begin(), versions.end(), IsModernVersion);
    const Json* const task = AtPointer(message_, "/params/task");
    request_.wants_task = !is_modern && request_.kind == McpRequest::Kind::kToolCall &&
                          task != nullptr && task->kind == Json::Kind::kObject;
    if (!is_modern) return {};
    request_.era = McpEra::kModern;
    if (versions.size() > 1) return Mismatch("MCP-Protocol-Version is there twice");
    if (!version.empty() && !versions.empty() && versions.front() != version) {
      return Mismatch("MCP-Protocol-Version says something else than the body");
    }
    if (request_.method.empty()) return {};
    if (auto refusal = CheckField("Mcp-Method", "/method")) return refusal;
    if (request_.method == "resources/read") return CheckField("Mcp-Name", "/params/uri");
    if (!request_.task.empty()) return CheckField("Mcp-Name", "/params/taskId");
    if (request_.method != "tools/call" && request_.method != "prompts/get") return {};
    return CheckField("Mcp-Name", "/params/name");
  }

  // One that is not there is for RefusalOfFields.
  Refusal CheckField(std::string_view name, std::string_view pointer) const {
    const auto values = FieldsOf(headers_, name);
    if (values.empty()) return {};
    if (values.size() > 1) return Mismatch(fmt::format("{} is there twice", name));
    const bool may_be_encoded = name == "Mcp-Name";
    const auto said = may_be_encoded ? DecodedField(values.front()) : std::string(values.front());
    if (said && *said == TextAt(message_, pointer)) return {};
    return Mismatch(fmt::format("{} says something else than the body", name));
  }

  McpRefusal Mismatch(std::string_view why) const {
    return Refused(kHeaderMismatch, fmt::format("Header mismatch: {}", why));
  }

  const Headers& headers_;
  const std::string_view body_;
  const Json& message_;
  const std::string at_;
  McpRequest request_;
};

// What the fields say of the body may not let a server read other text in it than is read here:
// some decode UTF-7, in which plain letters are quotes and braces. nullptr: nothing does.
const char* OtherReading(const Headers& headers) {
  const auto codings = FieldsOf(headers, "Content-Encoding");
  const auto is_coded = [](std::string_view coding) {
    return !coding.empty() && !EqualsIgnoreCase(coding, "identity");
  };
  if (std::ranges::any_of(codings, is_coded)) {
    return "the body of an MCP message is not encoded: send it without Content-Encoding";
  }
  const auto types = FieldsOf(headers, "Content-Type");
  if (types.size() > 1) return "Content-Type is there twice";
  if (types.empty()) return nullptr;
  constexpr std::string_view kCharset = "charset";
  const std::string type = ToLower(types.front());
  const std::size_t at = type.find(kCharset);
  if (at == std::string::npos) return nullptr;
  const std::string_view said = std::string_view(type).substr(at + kCharset.size());
  static constexpr std::array<std::string_view, 4> kUtf8{"=utf-8", "=utf8", "=\"utf-8\"",
                                                         "=\"utf8\""};
  if (std::ranges::find(kUtf8, said) != kUtf8.end()) return nullptr;
  return "the body of an MCP message is UTF-8: send Content-Type: application/json";
}

std::unexpected<McpRefusal> RefuseWhole(std::string why) {
  return std::unexpected(McpRefusal{400, kInvalidRequest, std::move(why)});
}

}  // namespace

std::expected<std::vector<McpRequest>, McpRefusal> ReadMcpRequest(const Headers& headers,
                                                                  std::string_view body) {
  if (const char* const why = OtherReading(headers)) return RefuseWhole(why);
  const auto json = ParseJson(body);
  if (!json) {
    const bool is_twice = json.error().detail().find("duplicate") != std::string_view::npos;
    return std::unexpected(
        McpRefusal{400, is_twice ? kInvalidRequest : kParseError,
                   "the body cannot be read: " + std::string(json.error().detail())});
  }
  std::vector<McpRequest> requests;
  if (json->kind != Json::Kind::kArray) {
    auto request = MessageReader(headers, body, *json, "").Read();
    if (!request) return std::unexpected(std::move(request.error()));
    requests.push_back(std::move(*request));
    return requests;
  }
  if (json->items.empty() || json->items.size() > limits::kBatchMax) {
    return RefuseWhole(fmt::format("a batch has 1 to {} messages", limits::kBatchMax));
  }
  std::set<std::pair<Json::Kind, std::string>> ids;
  for (std::size_t i = 0; i < json->items.size(); ++i) {
    auto request = MessageReader(headers, body, json->items[i], "/" + std::to_string(i)).Read();
    if (!request) return std::unexpected(std::move(request.error()));
    if (request->era == McpEra::kModern) return RefuseWhole("this protocol has no batches");
    if (request->kind == McpRequest::Kind::kToolCall || request->kind == McpRequest::Kind::kWrite) {
      return RefuseWhole("a batch must not hold a " + request->method + ": send it alone");
    }
    const Json* const id = request->method.empty() ? nullptr : json->items[i].Find("id");
    const bool is_twin = id != nullptr && !ids.emplace(id->kind, ScalarText(*id)).second;
    if (is_twin) return RefuseWhole("each request of a batch has an id of its own");
    requests.push_back(std::move(*request));
  }
  return requests;
}

std::optional<McpRefusal> RefusalOfFields(const Headers& headers, const McpRequest& request,
                                          const Json& arguments,
                                          const std::vector<ParamField>& params) {
  if (request.era != McpEra::kModern || request.id.empty()) return std::nullopt;
  const auto mismatch = [&](std::string_view why) {
    return McpRefusal{400, kHeaderMismatch, fmt::format("Header mismatch: {}", why), request.id};
  };
  const auto refused = [&](std::string_view field, std::string_view how) {
    return mismatch(fmt::format("{} is {}", field, how));
  };
  const bool is_named = request.kind == McpRequest::Kind::kToolCall || !request.task.empty();
  for (const char* const field : {"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"}) {
    if (std::string_view(field) == "Mcp-Name" && !is_named) continue;
    if (FindHeader(headers, field) == nullptr) return refused(field, "missing");
  }
  constexpr std::string_view kParam = "Mcp-Param-";
  std::set<std::string> seen;
  for (const auto& [name, value] : headers) {
    if (!EqualsIgnoreCase(name.substr(0, kParam.size()), kParam)) continue;
    if (!seen.insert(ToLower(name)).second) return refused(name, "there twice");
    if (!DecodedField(value)) return refused(name, "no base64");
  }
  if (const std::string why = ParamMismatch(params, arguments, headers); !why.empty()) {
    return mismatch(why);
  }
  return std::nullopt;
}

std::string RefusalBody(const McpRefusal& refusal) {
  return McpMessage(refusal.id, [&](JsonObject& json) {
    JsonObject error = json.Object("error");
    error.Number("code", refusal.code);
    error.Text("message", refusal.message);
  });
}

}  // namespace recourse
