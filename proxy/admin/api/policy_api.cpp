#include "proxy/admin/api/policy_api.h"

#include <algorithm>
#include <expected>
#include <optional>
#include <utility>
#include <vector>

#include "filters/key/explained_arguments.h"
#include "policy/explain/explain.h"
#include "policy/undo/undo_class.h"
#include "proxy/admin/access/problem.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

std::string_view NameOf(UnlistedRule rule) {
  return rule == UnlistedRule::kPass ? "pass" : rule == UnlistedRule::kGuard ? "guard" : "deny";
}

std::vector<std::string> NamesOf(const std::vector<SecretHeader>& secrets) {
  std::vector<std::string> names;
  for (const SecretHeader& secret : secrets) names.push_back(secret.name);
  return names;
}

void AppendBackend(std::string& out, const Backend& backend) {
  JsonObject json(out);
  json.Text("name", backend.name);
  json.Text("url", backend.scheme + "://" + backend.authority +
                       (backend.has_endpoint() ? backend.endpoint : backend.base_path));
  json.Texts("hosts", backend.hosts);
  const RequestPlace& key_at = backend.key.at;
  if (key_at.exists()) {
    json.Text("key_header", key_at.is_field() ? key_at.name : key_at.AsSelector().text);
  }
  json.Text("protocol", NameOf(backend.protocol));
  json.Texts("credentials", NamesOf(backend.secrets));
  if (backend.timeout) json.Number("timeout_ms", backend.timeout->count());
}

// What is said of a tool is what `explain` says of a call of it.
void AppendTool(std::string& out, const Policy& policy, const Tool& tool) {
  const Backend& backend = policy.backends[tool.backend];
  JsonObject json(out);
  json.Text("name", tool.name);
  json.Text("effect", tool.effect == Effect::kRead ? "read" : "write");
  json.Text("class", UndoClassName(UndoClassOf(tool)));
  json.Text("backend", backend.name);
  json.Texts("methods", tool.methods);
  json.Texts("patterns", tool.patterns);
  json.Texts("mcp_names", tool.mcp_names);
  json.Texts("mutations", tool.mutations);
  json.Texts("credentials", NamesOf(tool.secrets));
  json.Number("line", tool.line);
  if (const Flow* const flow = policy.FlowOf(tool)) json.Text("flow", flow->name);
  if (tool.undo) json.Text("undo", tool.undo->request.source);
  if (tool.settle) json.Text("settle", tool.settle->request.source);
  json.TextIfAny("reason", tool.reason);
  if (tool.approval) json.Texts("approval_by", tool.approval->by);
  Explanation of_tool;
  of_tool.backend = &backend;
  of_tool.tool = &tool;
  of_tool.effect = tool.effect;
  json.Each("rules", Describe(policy, of_tool), [](std::string& to, const auto& line) {
    if (line.first == "backend" || line.first == "why") return;
    JsonList pair(to);
    pair.Text(line.first);
    pair.Text(line.second);
  });
}

void AppendFlow(std::string& out, const Policy& policy, const Flow& flow) {
  JsonObject json(out);
  json.Text("name", flow.name);
  json.Each("tools", flow.tools, [&](std::string& to, std::size_t tool) {
    AppendJsonString(to, policy.tools[tool].name);
  });
  if (flow.ends_with) json.Text("ends_with", policy.tools[*flow.ends_with].name);
  if (flow.canceled_by) json.Text("canceled_by", policy.tools[*flow.canceled_by].name);
  if (flow.deadline) json.Number("deadline_ms", flow.deadline->count());
}

struct AskedCall {
  std::string call;
  Headers headers;
  std::string body;
};

AskedCall ReadQuery(std::string_view query) {
  AskedCall asked;
  for (const auto& [name, value] : ParsePairs(query)) asked.call = value;
  return asked;
}

std::expected<AskedCall, std::string> ReadAskedCall(const std::string& body) {
  AskedCall asked;
  const auto json = ParseJson(body);
  if (!json || json->kind != Json::Kind::kObject) {
    return std::unexpected(
        "the body must be a JSON object such as {\"call\": \"POST http://...\"}");
  }
  for (const auto& [name, value] : json->members) {
    if ((name == "call" || name == "body") && value.kind == Json::Kind::kString) {
      (name == "call" ? asked.call : asked.body) = value.text;
    } else if (name == "headers" && value.kind == Json::Kind::kArray) {
      for (const Json& field : value.items) {
        if (field.items.size() != 2) return std::unexpected("a header is a pair [name, value]");
        asked.headers.emplace_back(ScalarText(field.items[0]), ScalarText(field.items[1]));
      }
    } else {
      return std::unexpected("'" + name + "' is not one of call, headers, body");
    }
  }
  return asked;
}

}  // namespace

HttpResponse PolicyTools(const Policy& policy) {
  return JsonAnswer(ObjectText([&](JsonObject& json) {
    json.Text("version", policy.version);
    json.Text("mode", policy.mode == Mode::kObserve ? "observe" : "enforce");
    json.Text("unlisted_reads", NameOf(policy.unlisted_reads));
    json.Text("unlisted_writes", NameOf(policy.unlisted_writes));
    json.Number("retention_ms", policy.ledger.retention.count());
    json.Number("tombstones_ms", policy.ledger.tombstones.count());
    json.Each("backends", policy.backends, AppendBackend);
    json.Each("tools", policy.tools,
              [&](std::string& out, const Tool& tool) { AppendTool(out, policy, tool); });
    json.Each("flows", policy.flows,
              [&](std::string& out, const Flow& flow) { AppendFlow(out, policy, flow); });
  }));
}

HttpResponse PolicyExplain(const Policy& policy, const HttpRequest& request,
                           std::string_view query) {
  const auto asked = request.method == "POST" ? ReadAskedCall(request.body) : ReadQuery(query);
  if (!asked) return Problem(400, "Bad request", asked.error());
  ExplainedCall call;
  if (!ParseCall(asked->call, call)) {
    return Problem(400, "Bad call",
                   "accepted: \"POST http://host/path\" or \"POST backend /path\"");
  }
  call.headers = asked->headers;
  call.body = asked->body;
  return JsonAnswer(ExplanationJson(policy, Explain(policy, call, ArgumentsOf)));
}

}  // namespace recourse
