#include "proxy/admin/api/policy_api.h"

#include <algorithm>
#include <expected>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "filters/key/explained_arguments.h"
#include "policy/explain/explain.h"
#include "policy/undo/undo_class.h"
#include "proxy/admin/access/problem.h"

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

namespace policy_members {

using member::Number, member::Objects, member::Text, member::TextIfAny, member::Texts, member::Word;

constexpr JsonMember<Backend> kBackend[] = {
    Text<&Backend::name>("name"),
    Text<[](const Backend& of) {
      return of.scheme + "://" + of.authority + (of.has_endpoint() ? of.endpoint : of.base_path);
    }>("url"),
    Texts<&Backend::hosts>("hosts"),
    Text<[](const Backend& of) -> std::optional<std::string> {
      const RequestPlace& at = of.key.at;
      if (!at.exists()) return std::nullopt;
      return at.is_field() ? at.name : at.AsSelector().text;
    }>("key_header")
        .MayLack(),
    Text<[](const Backend& of) { return NameOf(of.protocol); }>("protocol"),
    Texts<[](const Backend& of) { return NamesOf(of.secrets); }>("credentials"),
    Number<[](const Backend& of) {
      return of.timeout.transform([](Millis timeout) { return timeout.count(); });
    }>("timeout_ms")
        .MayLack(),
};

struct OfTool {
  const Policy& policy;
  const Tool& tool;

  const Backend& backend() const { return policy.backends[tool.backend]; }
};
template <auto kGet>
constexpr auto kTo = [](const OfTool& of) -> decltype(auto) { return std::invoke(kGet, of.tool); };

std::optional<std::string> UndoSource(const OfTool& of) {
  return of.tool.undo.transform([](const auto& undo) { return undo.request.source; });
}
std::optional<std::string> SettleSource(const OfTool& of) {
  return of.tool.settle.transform([](const auto& settle) { return settle.request.source; });
}
// What is said of a tool is what `explain` says of a call of it.
auto RulesOf(const OfTool& of) {
  Explanation of_tool;
  of_tool.backend = &of.backend();
  of_tool.tool = &of.tool;
  of_tool.effect = of.tool.effect;
  auto rules = Describe(of.policy, of_tool);
  std::erase_if(rules,
                [](const auto& line) { return line.first == "backend" || line.first == "why"; });
  return rules;
}

constexpr JsonMember<OfTool> kTool[] = {
    Text<kTo<&Tool::name>>("name"),
    Word<[](const OfTool& of) { return of.tool.effect == Effect::kRead ? "read" : "write"; }>(
        "effect", "Effect"),
    Word<[](const OfTool& of) { return UndoClassName(UndoClassOf(of.tool)); }>("class",
                                                                               "UndoClass"),
    Text<[](const OfTool& of) -> std::string_view { return of.backend().name; }>("backend"),
    Texts<kTo<&Tool::methods>>("methods"),
    Texts<kTo<&Tool::patterns>>("patterns"),
    Texts<kTo<&Tool::mcp_names>>("mcp_names",
                                 "Of a tool of an MCP server, in place of methods and patterns: "
                                 "names, and globs such as read_*."),
    Texts<kTo<&Tool::mutations>>("mutations",
                                 "Of a tool of a GraphQL server, in place of methods and patterns: "
                                 "fields of its mutations."),
    Texts<[](const OfTool& of) { return NamesOf(of.tool.secrets); }>(
        "credentials", "Fields that its requests carry from files."),
    Number<kTo<&Tool::line>>("line"),
    Text<[](const OfTool& of) {
      const Flow* const flow = of.policy.FlowOf(of.tool);
      return flow == nullptr ? std::nullopt : std::optional(flow->name);
    }>("flow")
        .MayLack(),
    Text<UndoSource>("undo").MayLack(),
    Text<SettleSource>("settle").MayLack(),
    TextIfAny<kTo<&Tool::reason>>("reason"),
    Texts<[](const OfTool& of) {
      return of.tool.approval.transform([](const auto& approval) { return approval.by; });
    }>("approval_by")
        .MayLack(),
    member::Pairs<RulesOf>("rules"),
};

struct OfFlow {
  const Policy& policy;
  const Flow& flow;
};
// The name of a tool that the flow may say.
template <auto kGet>
constexpr auto kToolNamed = [](const OfFlow& of) {
  return std::invoke(kGet, of.flow).transform([&](std::size_t tool) {
    return of.policy.tools[tool].name;
  });
};
std::vector<std::string_view> ToolsOf(const OfFlow& of) {
  std::vector<std::string_view> names;
  for (const std::size_t tool : of.flow.tools) names.push_back(of.policy.tools[tool].name);
  return names;
}
constexpr JsonMember<OfFlow> kFlow[] = {
    Text<[](const OfFlow& of) -> std::string_view { return of.flow.name; }>("name"),
    Texts<ToolsOf>("tools"),
    Text<kToolNamed<&Flow::ends_with>>("ends_with").MayLack(),
    Text<kToolNamed<&Flow::canceled_by>>("canceled_by").MayLack(),
    Number<[](const OfFlow& of) {
      return of.flow.deadline.transform([](Millis deadline) { return deadline.count(); });
    }>("deadline_ms")
        .MayLack(),
};

constexpr JsonMember<Policy> kPolicy[] = {
    Text<&Policy::version>("version"),
    Word<[](const Policy& of) { return of.mode == Mode::kObserve ? "observe" : "enforce"; }>(
        "mode", R"({"type": "string", "enum": ["enforce", "observe"]})"),
    Word<[](const Policy& of) { return NameOf(of.unlisted_reads); }>("unlisted_reads", "Unlisted"),
    Word<[](const Policy& of) { return NameOf(of.unlisted_writes); }>("unlisted_writes",
                                                                      "Unlisted"),
    Number<[](const Policy& of) { return of.ledger.retention.count(); }>("retention_ms"),
    Number<[](const Policy& of) { return of.ledger.tombstones.count(); }>("tombstones_ms"),
    Objects<&Policy::backends, kBackend>("backends"),
    Objects<[](const Policy& of) {
      std::vector<OfTool> tools;
      for (const Tool& tool : of.tools) tools.push_back({of, tool});
      return tools;
    },
            kTool>("tools"),
    Objects<[](const Policy& of) {
      std::vector<OfFlow> flows;
      for (const Flow& flow : of.flows) flows.push_back({of, flow});
      return flows;
    },
            kFlow>("flows"),
};

}  // namespace policy_members
struct AskedPolicyCall {
  std::string call;
  Headers headers;
  std::string body;
};

AskedPolicyCall ReadQuery(std::string_view query) {
  AskedPolicyCall asked;
  for (const auto& [name, value] : ParsePairs(query)) asked.call = value;
  return asked;
}

std::expected<AskedPolicyCall, std::string> ReadAskedCall(const std::string& body) {
  AskedPolicyCall asked;
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
  return JsonAnswer(
      ObjectText([&](JsonObject& json) { WriteMembers(json, policy_members::kPolicy, policy); }));
}

JsonShape PolicyToolsShape() { return {"PolicyTools", "", DocsOf(policy_members::kPolicy)}; }

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
