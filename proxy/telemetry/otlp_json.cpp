#include "proxy/telemetry/otlp_json.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "filters/ledger/model/row_id.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::string_view kTracesPath = "/v1/traces";
constexpr int kServerSpan = 2, kClientSpan = 3;  // SpanKind
constexpr int kErrorStatus = 2;

constexpr std::array<std::string_view, 9> kMethods{"GET",     "HEAD",    "POST",  "PUT",  "DELETE",
                                                   "CONNECT", "OPTIONS", "TRACE", "PATCH"};

std::string_view KnownMethod(std::string_view method) {
  return std::ranges::find(kMethods, method) != kMethods.end() ? method : "_OTHER";
}

// Writes a list of attributes.
class Attributes {
 public:
  explicit Attributes(JsonObject& of) : list_(of.List("attributes")) {}
  void Text(std::string_view key, std::string_view value) {
    if (!value.empty()) Add(key, [&](JsonObject& json) { json.Text("stringValue", value); });
  }
  // 64-bit integers are strings in the JSON encoding.
  void Number(std::string_view key, std::int64_t value) {
    Add(key, [&](JsonObject& json) { json.Text("intValue", std::to_string(value)); });
  }
  void Flag(std::string_view key, bool value) {
    Add(key, [&](JsonObject& json) { json.Bool("boolValue", value); });
  }

 private:
  void Add(std::string_view key, auto write) {
    JsonObject attribute = list_.Object();
    attribute.Text("key", key);
    JsonObject value = attribute.Object("value");
    write(value);
  }

  JsonList list_;
};

bool IsError(const Span& span) {
  const bool is_server = span.of == Span::Of::kCall;
  return span.has_tool_error || (!span.error.empty() && span.status == 0) ||
         span.status >= (is_server ? 500 : 400);
}

std::string ErrorType(const Span& span) {
  if (!IsError(span)) return {};
  if (span.has_tool_error) return "tool_error";
  return span.error.empty() ? std::to_string(span.status) : std::string(span.error);
}

// What is none of the protocol's methods says nothing.
bool IsNamedRpc(const Span& span) {
  return !span.rpc.empty() && span.rpc != "other" && span.rpc != "response";
}

// The pattern that the call's path matched; empty where it is not ours to tell.
std::string_view RouteOf(const Span& span) {
  const bool is_agents = span.of == Span::Of::kCall || span.of == Span::Of::kAttempt;
  if (!is_agents || span.tool == nullptr || span.tool->patterns.empty()) return {};
  return span.tool->patterns.front();
}

// As the conventions for MCP have it, and those for HTTP of all else.
std::string NameOf(const Span& span) {
  if (IsNamedRpc(span)) {
    std::string name(span.rpc);
    return span.called.empty() ? name : name.append(" ").append(span.called);
  }
  const std::string_view method = KnownMethod(span.method.view());
  std::string name;
  if (span.of == Span::Of::kUndo) name = "undo ";
  if (span.of == Span::Of::kProbe) name = "probe ";
  if (span.of == Span::Of::kResend) name = "resend ";
  name += method == "_OTHER" ? "HTTP" : method;
  const std::string_view route = RouteOf(span);
  return route.empty() ? name : name.append(" ").append(route);
}

// A call of a tool, as those who look at agents find it. Of HTTP the call alone: who counts
// executions shall not find its attempts too.
void DescribeTool(const Span& span, Attributes& attributes) {
  if (IsNamedRpc(span)) attributes.Text("mcp.method.name", span.rpc);
  const bool is_of_http = span.of == Span::Of::kCall && span.rpc.empty() && span.tool != nullptr;
  if (span.rpc != "tools/call" && !is_of_http) return;
  attributes.Text("gen_ai.operation.name", "execute_tool");
  attributes.Text("gen_ai.tool.name", is_of_http ? span.tool->name : span.called);
}

void Describe(const Span& span, JsonObject& json) {
  Attributes attributes(json);
  const std::string_view method = KnownMethod(span.method.view());
  attributes.Text("http.request.method", method);
  if (method == "_OTHER") attributes.Text("http.request.method_original", span.method.view());
  if (span.status > 0) attributes.Number("http.response.status_code", span.status);
  attributes.Text("error.type", ErrorType(span));
  attributes.Text("network.protocol.version", "1.1");
  if (span.backend != nullptr) {
    attributes.Text("server.address", span.backend->host);
    attributes.Number("server.port", span.backend->port);
  }
  if (span.of == Span::Of::kCall) {
    attributes.Text("http.route", RouteOf(span));
    attributes.Text("url.path", RouteOf(span));
    attributes.Text("url.scheme", "http");
  } else if (span.backend != nullptr) {
    const std::string path = span.backend->base_path + std::string(RouteOf(span));
    attributes.Text("url.full", span.backend->scheme + "://" + span.backend->authority + path);
    attributes.Text("url.template", path);
    attributes.Text("network.peer.address", span.peer.view());
    if (span.resend_count > 0) attributes.Number("http.request.resend_count", span.resend_count);
  }
  if (span.tool != nullptr) attributes.Text("recourse.tool", span.tool->name);
  if (span.backend != nullptr) attributes.Text("recourse.backend", span.backend->name);
  attributes.Text("recourse.effect", span.effect);
  attributes.Text("recourse.event", span.event);
  attributes.Text("recourse.flow", span.flow);
  if (span.operation != 0) attributes.Text("recourse.operation", PrintRowId(span.operation));
  attributes.Text("recourse.outcome", span.outcome);
  if (span.of == Span::Of::kCall) {
    attributes.Text("recourse.error", span.error);
    attributes.Flag("recourse.replayed", span.is_replayed);
  }
  DescribeTool(span, attributes);
}

std::string Nanoseconds(MonoTime at, std::chrono::nanoseconds offset) {
  return std::to_string(
      (std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()) + offset)
          .count());
}

void WriteSpan(JsonObject& json, const Span& span, std::chrono::nanoseconds offset) {
  json.Text("traceId", span.trace.view());
  json.Text("spanId", span.id.view());
  json.TextIfAny("parentSpanId", span.parent.view());
  json.Text("name", NameOf(span));
  json.Number("kind", span.of == Span::Of::kCall ? kServerSpan : kClientSpan);
  json.Text("startTimeUnixNano", Nanoseconds(span.began, offset));
  json.Text("endTimeUnixNano", Nanoseconds(span.ended, offset));
  Describe(span, json);
  if (!span.linked.view().empty()) {
    JsonList links = json.List("links");
    JsonObject link = links.Object();
    link.Text("traceId", span.linked_trace.view());
    link.Text("spanId", span.linked.view());
  }
  JsonObject status = json.Object("status");
  if (IsError(span)) status.Number("code", kErrorStatus);
}

void WriteResource(JsonObject& json, const ResourceAttributes& resource) {
  JsonObject of = json.Object("resource");
  Attributes attributes(of);
  std::vector<std::string_view> told;
  for (const auto& [name, value] : resource) {
    if (std::ranges::find(told, name) != told.end()) continue;
    told.push_back(name);
    attributes.Text(name, value);
  }
}

void WriteScope(JsonObject& json) {
  JsonObject scope = json.Object("scope");
  scope.Text("name", "recourse");
  scope.Text("version", RECOURSE_VERSION);
}

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

ResourceAttributes ParseResourceAttributes(std::string_view text) {
  ResourceAttributes found;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = Trim(pair.substr(0, equals));
    std::string value;
    if (name.empty() || !IsUtf8(name) || !PercentDecode(Trim(pair.substr(equals + 1)), value)) {
      continue;
    }
    found.emplace_back(std::string(name), std::move(value));
  }
  return found;
}

std::string OtlpBody(std::span<const Span> spans, const ResourceAttributes& resource, WallTime wall,
                     MonoTime mono) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  const nanoseconds offset = duration_cast<nanoseconds>(wall.time_since_epoch()) -
                             duration_cast<nanoseconds>(mono.time_since_epoch());
  return ObjectText([&](JsonObject& json) {
    JsonList resources = json.List("resourceSpans");
    JsonObject of_resource = resources.Object();
    WriteResource(of_resource, resource);
    JsonList scopes = of_resource.List("scopeSpans");
    JsonObject of_scope = scopes.Object();
    WriteScope(of_scope);
    of_scope.Objects("spans", spans,
                     [&](JsonObject& to, const Span& span) { WriteSpan(to, span, offset); });
  });
}

ExportVerdict JudgeExport(int status, std::string_view body) {
  if (status < 200 || status > 299) {
    const bool is_passing = status == 429 || status == 502 || status == 503 || status == 504;
    return {is_passing ? ExportVerdict::Kind::kAgain : ExportVerdict::Kind::kRefused};
  }
  const auto answer = ParseJson(body);
  const Json* const rejected =
      answer ? AtPointer(*answer, "/partialSuccess/rejectedSpans") : nullptr;
  ExportVerdict verdict;
  if (rejected == nullptr) return verdict;
  const std::string count = ScalarText(*rejected);
  std::from_chars(count.data(), count.data() + count.size(), verdict.rejected);
  return verdict;
}

std::expected<Headers, std::string> ParseHeaderLines(std::string_view text) {
  Headers fields;
  for (int line = 1; !text.empty(); ++line) {
    const auto end = text.find('\n');
    const std::string_view one = Trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (one.empty() || one.front() == '#') continue;
    const auto colon = one.find(':');
    const std::string_view name = one.substr(0, colon);
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view() : Trim(one.substr(colon + 1));
    if (colon == std::string_view::npos || !IsToken(name) || !IsFieldValue(value)) {
      return std::unexpected("line " + std::to_string(line) + " is not `Name: value`");
    }
    fields.emplace_back(std::string(name), std::string(value));
  }
  return fields;
}

std::string TracesTarget(std::string_view base_path) {
  return std::string(base_path) + std::string(kTracesPath);
}

}  // namespace recourse
