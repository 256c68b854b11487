#include "policy/explain/explain.h"

#include <algorithm>
#include <array>

#include "policy/explain/explain_key.h"
#include "policy/graphql/decision/graphql_decision.h"
#include "policy/language/fields_read.h"
#include "policy/model/approval_need.h"
#include "policy/model/mcp_twins.h"
#include "policy/model/method_override.h"
#include "policy/model/override_scan.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "policy/model/tunnel_decision.h"

namespace recourse {
namespace {

// What of the call selectors can read.
struct CallParts {
  Pairs captures, query;
  std::optional<Json> body;
  bool body_is_form = false, has_unreadable_json = false;

  CallValues Values(const ExplainedCall& call) const {
    CallValues values;
    values.path = &captures;
    values.query = &query;
    values.headers = &call.headers;
    values.body = body ? &*body : nullptr;
    values.body_is_form = body_is_form;
    return values;
  }
};

Json FormValues(const std::string& text) {
  Json form;
  form.kind = Json::Kind::kObject;
  const Pairs pairs = ParsePairs(text);
  for (const auto& [name, value] : pairs) {
    const auto same = std::count_if(pairs.begin(), pairs.end(),
                                    [&](const auto& other) { return other.first == name; });
    if (same != 1) continue;  // two readings
    Json item;
    item.kind = Json::Kind::kString;
    item.text = value;
    form.members.emplace_back(name, std::move(item));
  }
  return form;
}

// Without a Content-Type the body is taken for JSON when it begins like it: on a command line
// nobody writes the header.
void ReadBody(const ExplainedCall& call, CallParts& parts) {
  if (call.body.empty()) return;
  const std::string* type = FindHeader(call.headers, "Content-Type");
  const std::string media = type == nullptr ? "" : ToLower(type->substr(0, type->find(';')));
  if (media == "application/x-www-form-urlencoded") {
    parts.body = FormValues(call.body);
    parts.body_is_form = true;
    return;
  }
  const auto first = call.body.find_first_not_of(" \t\r\n");
  const bool looks_like_json = type == nullptr && first != std::string::npos &&
                               (call.body[first] == '{' || call.body[first] == '[');
  if (media != "application/json" && !media.ends_with("+json") && !looks_like_json) return;
  auto json = ParseJson(call.body);
  parts.has_unreadable_json = !json;
  if (json) parts.body = std::move(*json);
}

// Of a call by name.
bool IsNamedMethod(std::string_view method) { return method == kToolsCall || method == kMutation; }

void Refuse(Explanation& out, ErrorCode code, std::string reason) {
  out.refused = FactsOf(code).slug;
  out.reason = std::move(reason);
}

// Who serves it. A backend that is named stands for its url; of tools/call it is meant itself.
EndpointPlace PlaceOf(const Policy& policy, const ExplainedCall& call, std::string_view path) {
  if (call.backend.empty()) return policy.routes->Place(call.authority, 80, path);
  const auto found = std::ranges::find(policy.backends, call.backend, &Backend::name);
  if (found == policy.backends.end()) return {};
  if (IsNamedMethod(call.method)) return {&*found, EndpointPath::kExact, &*found};
  return policy.routes->PlaceAtUrl(*found, path);
}

std::string JoinMethods(const Tool& tool) {
  std::string out;
  for (const std::string& method : tool.methods) out += (out.empty() ? "" : "|") + method;
  return out;
}

std::string WhyUnlisted(const Policy& policy, const Explanation& out, UnlistedRule rule) {
  if (policy.routes->EndpointsAt(*out.backend) != nullptr && out.mcp_tool.empty() &&
      rule == UnlistedRule::kDeny && out.effect == Effect::kWrite) {
    return "no tool matches, and a path beside the endpoint of an MCP server may be another door "
           "to its tools: writes there are refused unless a tool lists them";
  }
  const std::string kind = out.effect == Effect::kRead ? "reads" : "writes";
  const std::string_view name = rule == UnlistedRule::kPass    ? "pass"
                                : rule == UnlistedRule::kGuard ? "guard"
                                                               : "deny";
  if (!out.mcp_tool.empty()) {
    return "no tool matches, so it is one of the writes, and `unlisted: writes: " +
           std::string(name) + "` applies";
  }
  return "no tool matches; the method makes it one of the " + kind + ", and `unlisted: " + kind +
         ": " + std::string(name) + "` applies";
}

void ExplainWrite(const Policy& policy, UnlistedRule unlisted, const ExplainedCall& call,
                  CallParts parts, const ArgumentsReader& read_arguments, Explanation& out) {
  if (call.body.size() > limits::kWriteBodyBytesMax) {
    Refuse(out, ErrorCode::kRequestTooLarge, "the body of a write may have at most 8 MiB");
    return;
  }
  if (parts.has_unreadable_json) {
    Refuse(out, ErrorCode::kMalformedRequest, "the body is not JSON that can be read one way only");
    return;
  }
  if (out.tool != nullptr && read_arguments) {
    auto read = read_arguments(*out.tool, call, parts.query, out.mcp_tool);
    if (read.refusal) {
      Refuse(out, read.refusal->code(), read.refusal->detail());
      return;
    }
    parts.body = std::move(read.values);
    parts.body_is_form = read.is_form;
  }
  const CallValues values = parts.Values(call);
  if (out.tool != nullptr || unlisted == UnlistedRule::kGuard) {
    out.flow = FlowWithoutTrace(policy.flow_rules, call, values);
  }
  if (out.tool == nullptr) {
    if (unlisted == UnlistedRule::kGuard) AddKey(policy, Tool(), call, values, out);
    return;
  }
  const Tool& tool = *out.tool;
  AddKey(policy, tool, call, values, out);
  for (const std::string& pointer : tool.ignore) {
    out.notes.push_back("Ignored in the arguments: " + pointer + ".");
  }
  if (auto why = WhyForbidden(tool, values)) {
    Refuse(out, ErrorCode::kDenied, std::move(*why));
    return;
  }
  if (tool.approval) out.approval = WhyApproval(*tool.approval, values).value_or(std::string());
}

// Why the backend might take another method than the one that is judged.
std::optional<Error> WhyOverridden(const ExplainedCall& call, std::string_view query) {
  const auto overrides = [](const Header& field) { return IsOverrideField(ToLower(field.first)); };
  if (HasMethodOverride(query) || std::ranges::any_of(call.headers, overrides)) {
    return Error(ErrorCode::kMalformedRequest, "a call may not override its method or path");
  }
  const std::string* type = FindHeader(call.headers, "Content-Type");
  OverrideScan scan(type == nullptr ? std::string_view() : std::string_view(*type));
  if (!scan.Feed(call.body)) return std::nullopt;
  return Error(scan.code(), scan.reason());
}

// True: a field may be taken for another one that is read.
bool RefuseFields(const Policy& policy, const ExplainedCall& call, Explanation& out) {
  for (const auto& [name, value] : call.headers) {
    const std::string twin = ReadTwin(policy, name);
    if (twin.empty()) continue;
    Refuse(out, ErrorCode::kMalformedRequest, WhyTwinRefused(twin));
    return true;
  }
  return false;
}

// Of a tunnel that leads to this backend.
std::string WhatIsServed(const Policy& policy, const Backend& backend) {
  const std::string leads = "the tunnel leads to this backend: ";
  if (policy.routes->Intercepts(backend)) {
    return leads + "each request in it is judged as any other, whether it comes over TLS or not";
  }
  return leads + "each request of plain HTTP in it is judged as any other, and TLS is refused" +
         (backend.scheme == "https" ? ", unless you say `intercept: true` of the backend" : "");
}

// What can be told before a byte of the tunnel has come.
Explanation ExplainConnect(const Policy& policy, const Authority& target) {
  Explanation out;
  TunnelDecision decision = DecideTunnel(policy, target, std::nullopt);
  out.backend = decision.backend;
  if (decision.act == TunnelDecision::Act::kServe) {
    out.reason = WhatIsServed(policy, *decision.backend);
  } else if (const auto* rule = policy.tunnels.Find(target.host, target.port);
             decision.reason.empty() && rule != nullptr) {
    out.reason = "`tunnels` lists " + rule->text + ": a tunnel that nobody looks into";
  } else {
    Refuse(out, ErrorCode::kTunnelRefused, std::move(decision.reason));
    if (policy.mode == Mode::kObserve)
      out.notes.emplace_back("Observe mode opens it all the same.");
  }
  return out;
}

// What calls by name have in common; `call.body` is the arguments. False: it is refused.
bool ReadNamedCall(const Policy& policy, const ExplainedCall& call, CallParts& parts,
                   Explanation& out) {
  auto arguments = ParseJson(call.body.empty() ? "{}" : call.body);
  if (!arguments || arguments->kind != Json::Kind::kObject) {
    Refuse(out, ErrorCode::kMalformedRequest,
           "the arguments are no JSON object that can be read one way only");
    return false;
  }
  parts.body = std::move(*arguments);
  out.mcp_tool = call.target;
  out.path = out.backend->endpoint;
  out.tool = policy.routes->FindCalledTool(*out.backend, out.mcp_tool);
  if (out.tool == nullptr) {
    out.reason = WhyUnlisted(policy, out, policy.unlisted_writes);
    return true;
  }
  out.effect = out.tool->effect;
  out.reason = "tool " + out.tool->name + " (line " + std::to_string(out.tool->line) + ") names it";
  return true;
}

// The mutation of a GraphQL server, of whose field `call.body` is the arguments.
void ExplainMutation(const Policy& policy, const ExplainedCall& call,
                     const ArgumentsReader& read_arguments, Explanation& out) {
  if (!out.backend->is_graphql()) {
    Refuse(out, ErrorCode::kMalformedRequest,
           "backend " + out.backend->name + " is no GraphQL server (`protocol: graphql`)");
    return;
  }
  CallParts parts;
  if (!ReadNamedCall(policy, call, parts, out)) return;
  if (out.tool == nullptr && policy.unlisted_writes == UnlistedRule::kDeny) {
    Refuse(out, ErrorCode::kDenied, out.reason);
    return;
  }
  if (out.effect == Effect::kWrite) {
    ExplainWrite(policy, policy.unlisted_writes, call, std::move(parts), read_arguments, out);
  }
}

// A request to the endpoint of a GraphQL server: what it is, its document says.
void ExplainGraphql(const Policy& policy, const ExplainedCall& call, std::string_view query,
                    const ArgumentsReader& read_arguments, Explanation& out) {
  out.path = out.backend->endpoint;
  Headers headers = call.headers;
  if (FindHeader(headers, "Content-Type") == nullptr) {
    headers.emplace_back("Content-Type", "application/json");
  }
  const auto calls = ReadGraphql(*out.backend, call.method, headers, query, call.body);
  if (!calls) {
    Refuse(out, calls.error().code(), calls.error().detail());
    return;
  }
  const GraphqlDecision decision = DecideGraphql(policy, *out.backend, *calls);
  out.effect = decision.effect;
  if (decision.refusal) {
    Refuse(out, decision.refusal->code(), decision.refusal->detail());
  } else if (decision.field.empty()) {
    out.reason = "a document that only asks: it passes, whatever `unlisted` says";
  } else {
    ExplainedCall named = call;
    named.method = kMutation;
    named.target = decision.field;
    named.document = call.body;
    named.body = CanonicalJson(calls->front().fields.front().arguments);
    ExplainMutation(policy, named, read_arguments, out);
  }
}

// The call of an MCP server's tool, of which `call.body` is the arguments.
void ExplainToolsCall(const Policy& policy, const ExplainedCall& call,
                      const ArgumentsReader& read_arguments, Explanation& out) {
  if (!out.backend->is_mcp()) {
    Refuse(out, ErrorCode::kMalformedRequest,
           "backend " + out.backend->name + " is no MCP server (`protocol: mcp`)");
    return;
  }
  CallParts parts;
  if (!ReadNamedCall(policy, call, parts, out)) return;
  if (out.tool == nullptr) {
    if (out.backend->trust_annotations) {
      out.notes.emplace_back(
          "The server's annotations are trusted: readOnlyHint makes it a read once it was seen in "
          "an answer to tools/list.");
    }
    if (policy.unlisted_writes == UnlistedRule::kDeny) {
      Refuse(out, ErrorCode::kDenied, out.reason);
      return;
    }
  }
  if (std::string why =
          ObjectionToMcpName(policy, *out.backend, out.mcp_tool, out.tool, out.effect);
      !why.empty()) {
    Refuse(out, ErrorCode::kMalformedRequest, std::move(why));
    return;
  }
  if (out.effect == Effect::kWrite) {
    ExplainWrite(policy, policy.unlisted_writes, call, std::move(parts), read_arguments, out);
  }
}

// A request to the endpoint of an MCP server: what it is stands in its body.
void ExplainEndpoint(const Policy& policy, const ExplainedCall& call,
                     const ArgumentsReader& read_arguments, Explanation& out) {
  out.path = out.backend->endpoint;
  if (call.method != "POST" && !call.body.empty()) {
    Refuse(out, ErrorCode::kMalformedRequest, "at an MCP endpoint only a POST may have a body");
    return;
  }
  if (call.method != "POST") {
    out.effect = Effect::kRead;
    out.reason = "the MCP endpoint: sessions and streams of the protocol pass";
    return;
  }
  const auto message = ParseJson(call.body);
  const auto text_at = [](const Json& json, std::string_view pointer) {
    const Json* const value = AtPointer(json, pointer);
    return value == nullptr ? std::string() : value->text;
  };
  if (message && text_at(*message, "/method") == kToolsCall) {
    ExplainedCall named = call;
    const Json* const arguments = AtPointer(*message, "/params/arguments");
    named.target = text_at(*message, "/params/name");
    named.body = arguments == nullptr ? "" : CanonicalJson(*arguments);
    ExplainToolsCall(policy, named, read_arguments, out);
    return;
  }
  out.reason = "the MCP endpoint: what a POST is stands in its body; say \"tools/call " +
               out.backend->name + " NAME\" with the arguments as body for the call of a tool";
}

// A request to a path that is no endpoint.
void ExplainPath(const Policy& policy, const ExplainedCall& call, std::string_view path,
                 std::string_view query, const ArgumentsReader& read_arguments, Explanation& out) {
  std::string scratch;
  const auto match = policy.routes->Match(*out.backend, call.method, path, scratch);
  if (!match) {
    Refuse(out, match.error().code(), match.error().detail());
    return;
  }
  if (RefuseFields(policy, call, out)) return;
  out.path = match->path;
  out.tool = match->tool;
  out.effect = match->effect;
  if (match->tool == nullptr) {
    out.reason = WhyUnlisted(policy, out, match->unlisted);
    if (match->unlisted == UnlistedRule::kDeny) {
      Refuse(out, ErrorCode::kDenied, out.reason);
      return;
    }
  } else {
    out.reason = "tool " + match->tool->name + " (line " + std::to_string(match->tool->line) +
                 ") matches " + JoinMethods(*match->tool) + " on this path";
  }
  if (call.method == "HEAD" && out.effect == Effect::kWrite && out.tool != nullptr &&
      std::ranges::find(out.tool->methods, call.method) == out.tool->methods.end()) {
    Refuse(out, ErrorCode::kMethodNotAllowed, "this path is a write, which HEAD cannot ask for");
    return;
  }
  if (const auto why = WhyOverridden(call, query)) {
    Refuse(out, why->code(), std::string(why->detail()));
    return;
  }
  if (out.effect == Effect::kRead) return;
  CallParts parts;
  parts.query = ParsePairs(query.empty() ? query : query.substr(1));
  for (std::size_t i = 0; i < match->capture_count; ++i) {
    std::string value;
    if (!PercentDecode(match->captures[i].value, value)) value = match->captures[i].value;
    parts.captures.emplace_back(match->captures[i].name, std::move(value));
  }
  ReadBody(call, parts);
  ExplainWrite(policy, match->unlisted, call, std::move(parts), read_arguments, out);
}

}  // namespace

Explanation Explain(const Policy& policy, const ExplainedCall& call,
                    const ArgumentsReader& read_arguments) {
  if (call.method == "CONNECT") {
    if (const auto target = ParseAuthority(call.authority)) return ExplainConnect(policy, *target);
  }
  const auto question = std::min(call.target.find('?'), call.target.size());
  const std::string_view path = std::string_view(call.target).substr(0, question);
  const std::string_view query = std::string_view(call.target).substr(question);
  const EndpointPlace place = PlaceOf(policy, call, path);
  Explanation out;
  out.backend = place.backend;
  if (out.backend == nullptr) {
    Refuse(out, ErrorCode::kUnknownBackend, "no backend has this name or authority");
    return out;
  }
  if (call.method == kToolsCall) {
    ExplainToolsCall(policy, call, read_arguments, out);
    return out;
  }
  if (call.method == kMutation) {
    ExplainMutation(policy, call, read_arguments, out);
    return out;
  }
  if (place.where == EndpointPath::kExact && out.backend->is_graphql()) {
    if (!RefuseFields(policy, call, out)) {
      ExplainGraphql(policy, call, query, read_arguments, out);
    }
    return out;
  }
  if (place.where == EndpointPath::kExact) {
    if (!RefuseFields(policy, call, out)) ExplainEndpoint(policy, call, read_arguments, out);
    return out;
  }
  if (place.where == EndpointPath::kAmbiguous) {
    Refuse(out, ErrorCode::kAmbiguousPath,
           "another reading of the path, or where it leads behind the backend's url, is the "
           "endpoint of the server " +
               place.endpoint_of->name + ", " + place.endpoint_of->endpoint);
    return out;
  }
  ExplainPath(policy, call, path, query, read_arguments, out);
  return out;
}

bool ParseCall(const std::string& text, ExplainedCall& call) {
  const auto space = text.find(' ');
  const bool is_named = IsNamedMethod(text.substr(0, space));
  if (space == std::string::npos || !(is_named || IsToken(text.substr(0, space)))) {
    return false;
  }
  call.method = text.substr(0, space);
  std::string_view rest = std::string_view(text).substr(space + 1);
  if (call.method == "CONNECT") {
    const auto target = ParseAuthority(rest);
    call.authority = rest;
    return target && target->port != 0;
  }
  const auto scheme = is_named ? std::string_view::npos : rest.find("://");
  if (scheme != std::string_view::npos && rest.starts_with("http")) {
    rest.remove_prefix(scheme + 3);
    const auto slash = std::min(rest.find_first_of("/?"), rest.size());
    call.authority = rest.substr(0, slash);
    call.target = rest.substr(slash);
    if (!call.target.starts_with('/')) call.target.insert(0, "/");
    return !call.authority.empty();
  }
  const auto second = rest.find(' ');
  if (second == std::string_view::npos || second == 0) return false;
  call.backend = rest.substr(0, second);
  call.target = rest.substr(second + 1);
  return is_named ? !call.target.empty() : call.target.starts_with('/');
}

}  // namespace recourse
