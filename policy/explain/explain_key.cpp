#include "policy/explain/explain_key.h"

#include <algorithm>
#include <optional>

#include "policy/graphql/key_argument.h"
#include "policy/model/principal.h"
#include "policy/undo/put_back.h"
#include "policy/uri/opposites.h"
#include "proxy/base/http/argument_fields.h"
#include "proxy/base/http/field_reach.h"

namespace recourse {
namespace {

std::string Shown(const std::optional<Json>& value) {
  if (!value) return "absent in this call";
  std::string text = CanonicalJson(*value);
  if (value->kind == Json::Kind::kNumber) text = ScalarText(*value);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

bool HasTrace(const Headers& headers) {
  const std::string* trace = FindHeader(headers, "traceparent");
  return trace != nullptr && trace->size() >= 55;
}

// Adds the intent that the agent names with the field; false: it does not.
bool AddNamedIntent(const ExplainedCall& call, const char* field, Explanation& out) {
  const std::string* const intent = FindHeader(call.headers, field);
  if (intent == nullptr) return false;
  out.key.push_back({"intent", "header " + std::string(field) + ": " + *intent});
  out.notes.emplace_back(
      "The agent named the intent itself, so the scope is the caller and the arguments stay out of "
      "the key.");
  return true;
}

// The same where it stands in the place of the backend's key.
bool AddPlacedKey(const Tool& tool, const ExplainedCall& call, const CallValues& values,
                  Explanation& out) {
  if (!tool.key || !tool.key->at.is_inside()) return false;
  const RequestPlace& at = tool.key->at;
  std::optional<std::string> text;
  if (at.is_in_document()) {
    if (auto found = FindGraphqlKey(call.document, at.name, at.argument))
      text = std::move(found->text);
  } else if (auto found = TextAtPlace(at, values)) {
    text = std::move(*found);
  }
  if (!text) return false;
  out.key.push_back({"intent", at.AsSelector().text + ": " + *text});
  out.notes.emplace_back(
      "The agent wrote the key itself, so the scope is the caller and the arguments stay out of "
      "the "
      "key.");
  return true;
}

// The scope of a call without a trace. `is_named`: its identity is in it.
void AddFallbackScope(const ExplainedCall& call, bool is_named, Explanation& out) {
  for (const char* field : {"Recourse-Session", "Mcp-Session-Id"}) {
    if (FindHeader(call.headers, field) == nullptr) continue;
    out.key.push_back({"session", "header " + std::string(field)});
    out.notes.emplace_back(
        "No traceparent in this call: the scope is its session, for the dedupe "
        "window.");
    return;
  }
  if (!PrincipalNames({}, call.headers, {}).empty()) {
    out.key.push_back({"credentials", "whose they are, as far as that is written in them"});
  }
  out.notes.emplace_back(
      is_named
          ? "No traceparent in this call: equal ones with the same credentials are one for the "
            "dedupe window."
          : "No traceparent, session or identity in this call: only its retry is the same "
            "call, when its first client has gone without the answer. `scope: caller` makes "
            "equal calls one.");
}

std::string TimesThere(const Headers& headers, const std::string& field) {
  const auto count = std::ranges::count_if(
      headers, [&](const Header& one) { return EqualsIgnoreCase(one.first, field); });
  return count == 0 ? ", absent in this call" : count > 1 ? ", more than once in this call" : "";
}

void AddCaller(const CallersRule& rule, const ExplainedCall& call, Explanation& out) {
  if (!rule.names_any()) {
    out.key.push_back({"caller",
                       "who calls: the name in its certificate; without one all agents are one "
                       "caller, unless `callers` tells them apart"});
    return;
  }
  std::string source, lacks;
  if (rule.jwt) {
    lacks = TimesThere(call.headers, rule.jwt->field);
    source = "jwt: " + rule.jwt->claim + " of the verified token in " + rule.jwt->field + lacks;
  }
  if (!rule.field.empty()) {
    const std::string there = TimesThere(call.headers, rule.field);
    const std::string* const value = FindHeader(call.headers, rule.field);
    lacks += there;
    source += std::string(source.empty() ? "" : "; ") + "field: header " + rule.field +
              (there.empty() ? ": " + *value : there);
  }
  out.key.push_back({"caller", source + "; and the name in its certificate, if it has one"});
  if (!lacks.empty()) {
    out.notes.emplace_back("As it stands the call is answered 401 `caller-unknown` and not sent.");
  }
}

// The fields that are arguments: none of a call by name, which has them in its message.
std::string FieldsCounted(const ExplainedCall& call) {
  std::string names;
  for (const auto& [name, value] : ArgumentFieldsOf(call.headers)) names += ", header " + name;
  return names;
}

// What the answer is bound to.
void AddOwner(const Policy& policy, const ExplainedCall& call, const CallValues& values,
              Explanation& out) {
  for (const auto& [name, value] : call.headers) {
    if (IsTenantField(name)) out.key.push_back({"tenant", "header " + name + ": " + value});
  }
  std::string names;
  const auto query = values.query == nullptr ? Pairs() : *values.query;
  const auto& token = policy.callers.jwt;
  for (const std::string& name : PrincipalNames(policy.principal, call.headers, query)) {
    names += (names.empty() ? "" : ", ") + name;
    if (token && EqualsIgnoreCase(name, "header " + token->field)) {
      names += " (issuer and subject of its token)";
    }
  }
  out.notes.push_back(
      names.empty() ? "The call carries no credentials; its answer is shown to calls without any."
                    : "Its answer is shown to calls with the same credentials: " + names + ".");
}

void AddScope(const ScopeRule& scope, const ExplainedCall& call, const CallValues& values,
              bool is_named, Explanation& out) {
  using Kind = ScopeRule::Kind;
  switch (scope.kind) {
    case Kind::kCaller:
    case Kind::kGlobal:
      break;
    case Kind::kTrace:
      if (HasTrace(call.headers)) {
        out.key.push_back({"trace", "trace-id of the header traceparent"});
      } else {
        AddFallbackScope(call, is_named, out);
      }
      return;
    case Kind::kSession:
      out.key.push_back({"session", "header Recourse-Session or Mcp-Session-Id"});
      return;
    case Kind::kHeader: {
      const Selector header{Selector::Source::kHeader, scope.name, {}};
      out.key.push_back(
          {"header." + scope.name, "header " + scope.name + ": " + Shown(Select(header, values))});
      return;
    }
    case Kind::kBody: {
      const Selector body{Selector::Source::kBody, scope.name, {}};
      out.key.push_back({"body#" + scope.name, "request body: " + Shown(Select(body, values))});
      return;
    }
    case Kind::kBaggage:
      out.key.push_back({"baggage." + scope.name, "member of the header baggage"});
      return;
  }
  if (scope.kind == Kind::kGlobal) {
    out.key.clear();
    out.key.push_back({"global", "the same for every caller"});
  }
}

// Opposites of a verb of the call's own name.
std::string OppositesOfName(std::string_view name) {
  std::string all;
  for (const std::string& word : WordsOf(name)) {
    for (const std::string_view opposite : OppositesOf(word)) {
      all += (all.empty() ? "" : ", ") + std::string(opposite);
    }
  }
  return all;
}

// After which writes the stored answer of a call that its agent did not name is true no more.
std::string WhatEnds(const Tool& tool, const ExplainedCall& call, const CallValues& values,
                     const Explanation& out) {
  const bool is_mcp = !out.mcp_tool.empty();
  std::string text;
  if (is_mcp && SetsBack(tool, values)) {
    text = tool.superseded_by_others
               ? "any other write to what `before` reads"
               : "its undo, or a call that sets something else in what `before` reads";
  } else if (is_mcp && tool.superseded_by_others) {
    text = "any other call of it";
  } else if (!is_mcp &&
             (call.method == "PUT" || call.method == "DELETE" || tool.superseded_by_others)) {
    text = "any other write on its path and query";
  } else if (!is_mcp && call.method == "PATCH") {
    text = "a PUT or DELETE of it, or a PATCH that gives one of its members another value";
  } else if (!is_mcp && call.method == "POST" && SetsBack(tool, values)) {
    text = "a PUT or DELETE of it, or a POST that gives one of its members another value";
  } else {
    text = is_mcp ? "its undo" : "its undo, or a DELETE of what it made";
  }
  const std::string opposites =
      OppositesOfName(is_mcp ? std::string_view(out.mcp_tool)
                             : std::string_view(out.path).substr(out.path.rfind('/') + 1));
  if (!opposites.empty()) text += ", or its opposite (" + opposites + ") with equal arguments";
  std::string tools;
  for (const EndingTool& ending : tool.superseded_by) {
    tools += (tools.empty() ? "" : ", ") + ending.name;
  }
  if (!tools.empty()) text += ", or one of " + tools;
  return text;
}

// A door has the identity of the tool that it leads to, from its own places.
void AddDoor(const SameAsRule& door, const CallValues& values, Explanation& out) {
  for (std::size_t i = 0; i < door.identity.size(); ++i) {
    const Selector& place = door.identity[i];
    out.key.push_back(
        {door.named[i].text, "identity at " + place.text + ": " + Shown(Select(place, values))});
  }
  out.notes.push_back("It is a door to " + door.tool + ": equal calls of both are one.");
}

// All of the key but the caller.
void AddParts(const Policy& policy, const Tool& tool, const ExplainedCall& call,
              const CallValues& values, Explanation& out) {
  const bool is_mcp = !out.mcp_tool.empty();
  const bool is_mutation = is_mcp && out.backend->is_graphql();
  out.fingerprint = is_mutation ? "the field, its arguments, and what is selected of its answer"
                    : is_mcp    ? "the name of the MCP tool and its arguments"
                                : "method, path, query and the whole body";
  AddOwner(policy, call, values, out);
  const SameAsRule* const door = DoorOf(tool, values);
  const std::vector<Selector>& identity = door == nullptr ? tool.identity : door->identity;
  const bool has_identity = std::ranges::any_of(
      identity, [&](const Selector& selector) { return Select(selector, values).has_value(); });
  if (AddNamedIntent(call, "Recourse-Intent", out)) return;
  const bool key_wins = !has_identity || tool.agent_key == AgentKey::kWins;
  if (key_wins && AddNamedIntent(call, "Idempotency-Key", out)) return;
  if (key_wins && AddPlacedKey(tool, call, values, out)) return;
  out.notes.push_back("Its answer is replayed until " + WhatEnds(tool, call, values, out) + ".");
  AddScope(tool.scope, call, values, has_identity, out);
  if (!has_identity) {
    if (!identity.empty()) {
      out.notes.emplace_back(
          "None of the identity values is in this call, so all arguments count.");
    }
    const std::string fields = is_mcp ? std::string() : FieldsCounted(call);
    const std::string_view said = tool.says_all && door == nullptr ? " (identity: all)" : "";
    out.key.push_back({"args", out.fingerprint + ", normalized" + fields + std::string(said)});
    return;
  }
  if (door != nullptr) return AddDoor(*door, values, out);
  for (const Selector& selector : tool.identity) {
    out.key.push_back({selector.text, "identity: " + Shown(Select(selector, values))});
  }
}

}  // namespace

void AddKey(const Policy& policy, const Tool& tool, const ExplainedCall& call,
            const CallValues& values, Explanation& out) {
  AddCaller(policy.callers, call, out);
  ExplainedCall seen = call;
  std::erase_if(seen.headers,
                [](const Header& field) { return ReachOf(field.first) == FieldReach::kNowhere; });
  AddParts(policy, tool, seen, values, out);
}

std::string FlowWithoutTrace(const FlowRules& rules, const ExplainedCall& call,
                             const CallValues& values) {
  using Kind = WithoutTrace::Kind;
  if (HasTrace(call.headers) || FindHeader(call.headers, "Recourse-Flow") != nullptr) return {};
  const std::string unless = rules.parent.empty() ? "" : ", unless `parent` finds a name in it";
  const std::string lone = "a flow of one step" + unless;
  const ScopeRule& place = rules.without_trace.place;
  switch (rules.without_trace.kind) {
    case Kind::kPod:
      return "the one of this pod (without_trace: pod)" + unless;
    case Kind::kPlace:
      if (place.kind == ScopeRule::Kind::kSession) {
        return "that of the header Recourse-Session or Mcp-Session-Id; without one " + lone;
      }
      return "that of header " + place.name + ": " +
             Shown(Select({Selector::Source::kHeader, place.name, {}}, values)) + "; without one " +
             lone;
    case Kind::kNone:
      break;
  }
  return lone + ": nothing that breaks it undoes another write (flow_rules: without_trace)";
}

}  // namespace recourse
