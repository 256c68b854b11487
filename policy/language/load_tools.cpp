#include <fmt/format.h>

#include <algorithm>

#include "policy/language/load_rules.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"

namespace recourse {
namespace {

// Of what else ends an answer a row has room for, beside these.
constexpr std::size_t kSupersedingMax = 6;

void ReadScope(MapReader& map, Tool& tool) {
  const auto text = map.Text("scope");
  if (!text) return;
  if (auto scope = ParseScope(*text)) {
    if (scope->kind == ScopeRule::Kind::kHeader) {
      if (const std::string why = WhyUnseen(*text, scope->name); !why.empty()) {
        map.problems().Error(map.PlaceOf("scope"), map.KeyOf("scope"), why);
      }
    }
    tool.scope = std::move(*scope);
    return;
  }
  map.problems().Error(map.node().Find("scope")->place, map.KeyOf("scope"),
                       "accepted: trace, session, caller, global, \"header:Name\", "
                       "\"body#/pointer\", \"baggage:name\"");
}

void ReadIgnore(MapReader& map, Tool& tool) {
  for (const LocatedText& item : map.Texts("ignore")) {
    std::string_view pointer = item.text;
    for (const std::string_view prefix : {"request.", "body", "#"}) {
      if (pointer.starts_with(prefix)) pointer.remove_prefix(prefix.size());
    }
    if (pointer.empty() || !IsJsonPointer(pointer)) {
      const bool is_escape = pointer.starts_with('/') && pointer.contains('~');
      map.problems().Error(item.place, item.key,
                           std::string("accepted: a JSON pointer such as /meta/sent_at") +
                               (is_escape ? ", with ~0 for '~' and ~1 for '/' in a name" : ""));
      continue;
    }
    const Selector place{Selector::Source::kBody, std::string(pointer), item.text};
    WarnAboutPointer(item, place, map.problems());
    tool.ignore.emplace_back(pointer);
  }
}

constexpr std::string_view kAllArguments = "all";

void ReadIdentity(MapReader& map, Tool& tool) {
  const std::vector<LocatedText> items = map.Texts("identity");
  for (const LocatedText& item : items) {
    // What holds without the word, too: it adds nothing to the key.
    if (item.text == kAllArguments) {
      tool.says_all = true;
      if (items.size() == 1) continue;
      map.problems().Error(item.place, item.key,
                           "stands for all arguments: no place goes beside it");
    } else if (ToLower(item.text) == kAllArguments || item.text == "*") {
      map.problems().Error(item.place, item.key,
                           "'" + item.text + "' is no place, did you mean 'all'?");
    } else if (auto selector = ReadSelector(item, Reads::kRequest, map.problems())) {
      tool.identity.push_back(std::move(*selector));
    }
  }
}

void ReadKeyWords(MapReader& map, Tool& tool) {
  static constexpr std::pair<std::string_view, AcrossTraces> kAcross[] = {
      {"if_unanswered", AcrossTraces::kIfUnanswered},
      {"never", AcrossTraces::kNever},
      {"always", AcrossTraces::kAlways},
      {"ask", AcrossTraces::kAsk}};
  static constexpr std::pair<std::string_view, OnMismatch> kMismatch[] = {
      {"reject", OnMismatch::kReject}, {"replay", OnMismatch::kReplay}, {"ask", OnMismatch::kAsk}};
  static constexpr std::pair<std::string_view, AgentKey> kAgentKey[] = {
      {"yields", AgentKey::kYields}, {"wins", AgentKey::kWins}};
  static constexpr std::pair<std::string_view, bool> kTrace[] = {{"optional", false},
                                                                 {"required", true}};
  ReadScope(map, tool);
  tool.trace_required = map.OneOf("trace", kTrace).value_or(false);
  ReadIdentity(map, tool);
  tool.same_as = ReadSameAs(map);
  ReadIgnore(map, tool);
  tool.dedupe_window = map.Duration("dedupe_window", Millis(0)).value_or(tool.dedupe_window);
  tool.across_window = map.Duration("across_window", Millis(0)).value_or(tool.across_window);
  tool.across_traces = map.OneOf("across_traces", kAcross).value_or(tool.across_traces);
  tool.on_mismatch = map.OneOf("on_mismatch", kMismatch).value_or(tool.on_mismatch);
  for (const LocatedText& item : map.Texts("superseded_by")) {
    if (item.text == "none") continue;
    if (item.text == "others") {
      tool.superseded_by_others = true;
    } else if (tool.superseded_by.size() == kSupersedingMax) {
      map.problems().Error(
          item.place, item.key,
          fmt::format("at most {} tools: a row of the ledger has no room for more; "
                      "`others` stands for all writes on its path",
                      kSupersedingMax));
      break;
    } else {
      tool.superseded_by.push_back({.name = item.text, .captures = {}});
    }
  }
  tool.agent_key = map.OneOf("agent_key", kAgentKey).value_or(tool.agent_key);
}

// The backend's key goes with every call of a listed tool; inside a request only with those.
void ReadKey(MapReader& map, const PolicyBuilder& draft, Tool& tool) {
  static const KeyRule kNone;
  const bool is_matched = tool.backend < draft.policy.backends.size();
  const KeyRule& of_backend = is_matched ? draft.policy.backends[tool.backend].key : kNone;
  // Of a protocol that is misspelled that is all that need be said.
  const bool has_variables =
      !is_matched || draft.policy.backends[tool.backend].is_graphql() ||
      draft.problems.IsMisspelled("backends." + draft.policy.backends[tool.backend].name +
                                  ".protocol");
  tool.key = ReadKeyRule(map, of_backend, has_variables);
  if (!tool.key && of_backend.at.is_inside()) tool.key = of_backend;
  if (!tool.key || !tool.key->at.is_inside()) return;
  const auto error = [&](std::string message) {
    map.problems().Error(map.PlaceOf("key_at"), map.KeyOf("key_at"), std::move(message));
  };
  const RequestPlace& at = tool.key->at;
  if (!tool.mutations.empty()) {
    if (at.is_in_document() || at.name.starts_with("/variables/")) return;
    error(
        "a mutation has room for a key in its header, its variables or its document; accepted: "
        "header:Idempotency-Key, variables#/input/id, document@idempotent(key), or none");
  } else if (tool.is_named()) {
    error(
        "a call by name has room for a key in its header only; accepted: "
        "header:Idempotency-Key, or none");
  } else if (at.is_in_document()) {
    error("only mutations of a backend with `protocol: graphql` have a document");
  }
}

void ReadExternalRef(MapReader& map, Tool& tool) {
  const auto text = map.Text("external_ref");
  if (!text) return;
  tool.external_ref =
      ReadSelector({*text, map.node().Find("external_ref")->place, map.KeyOf("external_ref")},
                   Reads::kRequestOrAnswer, map.problems());
}

Speaks SpeaksOf(const Tool& tool, const PolicyBuilder& draft) {
  if (!tool.mcp_names.empty()) {
    return {Speaks::Kind::kMcp, draft.policy.backends[tool.backend].endpoint};
  }
  if (!tool.mutations.empty()) {
    return {Speaks::Kind::kGraphql, draft.policy.backends[tool.backend].endpoint};
  }
  if (tool.patterns.empty()) return {Speaks::Kind::kNotKnown, "/"};
  return {Speaks::Kind::kHttp};
}

void ReadOnError(MapReader& map, Tool& tool) {
  static constexpr std::pair<std::string_view, OnError> kValues[] = {
      {"unknown", OnError::kUnknown}, {"not_executed", OnError::kNotExecuted}};
  tool.on_error = map.OneOf("on_error", kValues).value_or(tool.on_error);
  if (!map.Has("on_error") || tool.patterns.empty()) return;
  map.problems().Error(
      map.PlaceOf("on_error"), map.KeyOf("on_error"),
      "says what errors of an MCP or a GraphQL server prove; the statuses that prove that "
      "nothing was done are `not_executed`");
}

void ReadAnswerForm(MapReader& map, Tool& tool) {
  static constexpr std::pair<std::string_view, AnswerForm> kValues[] = {
      {"stream", AnswerForm::kStream}, {"whole", AnswerForm::kWhole}};
  tool.answer = map.OneOf("answer", kValues).value_or(tool.answer);
  if (!map.Has("answer") || !tool.is_named()) return;
  map.problems().Error(map.PlaceOf("answer"), map.KeyOf("answer"),
                       "is for paths; what an MCP tool says before its result comes as it comes, "
                       "what a GraphQL server says comes whole");
}

void ReadOutcomeWords(MapReader& map, PolicyBuilder& draft, Tool& tool) {
  static constexpr std::pair<std::string_view, BreaksFlow> kBreaks[] = {
      {"never", BreaksFlow::kNever},
      {"on_failure", BreaksFlow::kOnFailure},
      {"on_unknown", BreaksFlow::kOnUnknown}};
  const Speaks speaks = SpeaksOf(tool, draft);
  ReadExternalRef(map, tool);
  ReadOnError(map, tool);
  ReadAnswerForm(map, tool);
  tool.before = ReadBefore(map, speaks);
  tool.settle = ReadSettle(map, speaks, tool.before);
  tool.settled_by = ReadSettledBy(map, speaks);
  std::vector<UndoRule> undos = ReadUndo(map, speaks, draft.tls_files);
  if (!undos.empty()) {
    tool.undo = std::move(undos.front());
    undos.erase(undos.begin());
    tool.other_undos = std::move(undos);
  }
  tool.deny = ReadConditions(map, "deny", Reads::kRequest);
  tool.allow = ReadConditions(map, "allow", Reads::kRequest);
  tool.approval = ReadApproval(map, draft.tls_files, draft.approvers);
  tool.reason = map.Text("reason").value_or("");
  tool.breaks_flow = map.OneOf("breaks_flow", kBreaks).value_or(tool.breaks_flow);
  tool.pivot = map.Bool("pivot").value_or(false);
  tool.success_when = ReadConditions(map, "success_when", Reads::kAnswer);
  tool.failed_when = ReadConditions(map, "failed_when", Reads::kAnswer);
  tool.not_executed = ReadStatuses(map, "not_executed");
  tool.repeat_if = ReadConditions(map, "repeat_if", Reads::kAnswer);
  tool.happened_if = ReadHappenedIf(map);
  tool.keep_headers = ReadKeepHeaders(map);
  tool.redact = ReadRedact(map);
  tool.failed_ttl = map.Duration("failed_ttl", Millis(0)).value_or(tool.failed_ttl);
  tool.hold = map.Duration("hold", Millis(0)).value_or(tool.hold);
}

// The agent's answer usually names what was made; most REST backends call it `id`.
void AddDefaultRef(Tool& tool) {
  if (tool.external_ref || !tool.mutations.empty()) return;
  if (auto selector = ParseSelector("answer.body#/id")) tool.external_ref = std::move(*selector);
}

// What a tunnel carries is not seen, so it can never be a write; RFC 6455 begins with a GET.
void ReadUpgrades(MapReader& map, Tool& tool) {
  for (const LocatedText& protocol : map.Texts("upgrade")) {
    if (protocol.text != "websocket") {
      map.problems().Error(protocol.place, protocol.key, "accepted: websocket");
    } else {
      tool.upgrades.push_back(protocol.text);
    }
  }
  if (!map.Has("upgrade")) return;
  if (tool.is_named()) {
    map.problems().Error(map.PlaceOf("upgrade"), map.KeyOf("upgrade"),
                         "is for paths; its server has one endpoint, which is no tunnel");
  } else if (tool.effect == Effect::kWrite) {
    map.problems().Error(map.PlaceOf("upgrade"), map.KeyOf("upgrade"),
                         "is for reads only: what a tunnel carries cannot be made repeatable");
  } else if (tool.methods != std::vector<std::string>{"GET"}) {
    map.problems().Error(
        map.PlaceOf("upgrade"), map.KeyOf("upgrade"),
        "an upgrade begins with a GET; accepted: a tool whose match has GET alone");
  }
}

// What the tool's backend makes of the paths that are rendered for it.
void TellTemplates(const PolicyBuilder& draft, Tool& tool) {
  if (tool.backend >= draft.policy.backends.size()) return;  // an error was told
  const Backend& backend = draft.policy.backends[tool.backend];
  const bool keeps = backend.keeps_escaped_slash;
  const auto tell_question = [&](SettledByRule& rule) {
    rule.request.keeps_escaped_slash = keeps;
    rule.root = backend.scheme + "://" + backend.authority;
    rule.base_path = backend.base_path;
  };
  if (tool.settle) tool.settle->request.keeps_escaped_slash = keeps;
  if (tool.settled_by) tell_question(*tool.settled_by);
  const auto tell = [&](UndoRule& undo) {
    undo.request.keeps_escaped_slash = keeps;
    if (undo.settled_by) tell_question(*undo.settled_by);
  };
  if (tool.undo) tell(*tool.undo);
  for (UndoRule& other : tool.other_undos) tell(other);
}

// What the server declares by now is held against it, and told where it is another.
void ReadDeclared(MapReader& map, Tool& tool) {
  static constexpr std::string_view kStart = "sha256:";
  const auto text = map.Text("declared");
  if (!text) return;
  const bool is_digest = text->starts_with(kStart) && text->size() == kStart.size() + 64 &&
                         text->find_first_not_of("0123456789abcdef", kStart.size()) == text->npos;
  if (is_digest && !tool.mcp_names.empty()) {
    tool.declared = *text;
    return;
  }
  map.problems().Error(map.PlaceOf("declared"), map.KeyOf("declared"),
                       is_digest ? "only a tool of an MCP server declares its effects"
                                 : "accepted: sha256: and 64 hexadecimal digits, as `recourse "
                                   "policy import mcp` writes it");
}

Tool ReadTool(MapReader& map, PolicyBuilder& draft) {
  static constexpr std::pair<std::string_view, Effect> kEffects[] = {{"read", Effect::kRead},
                                                                     {"write", Effect::kWrite}};
  Tool tool;
  ReadMatch(map, draft, tool);
  map.Need("effect", "accepted: read or write");
  tool.effect = map.OneOf("effect", kEffects).value_or(Effect::kWrite);
  tool.timeout = map.Duration("timeout", Millis(1));
  ReadDeclared(map, tool);
  tool.secrets = ReadCredentials(map, draft.tls_files, Sources::kFilesAndTokens,
                                 "; without it the backend's or the agent's own go on");
  ReadUpgrades(map, tool);
  ReadKeyWords(map, tool);
  ReadKey(map, draft, tool);
  ReadOutcomeWords(map, draft, tool);
  map.Finish();
  if (tool.effect == Effect::kRead) {
    for (const auto& member : map.node().members) {
      static constexpr std::string_view kOfReads[] = {"match",   "effect",      "timeout",
                                                      "upgrade", "credentials", "declared"};
      if (std::ranges::find(kOfReads, member.name) != std::end(kOfReads)) continue;
      if (!map.Knows(member.name)) continue;
      draft.problems.Error(member.name_place, map.KeyOf(member.name),
                           "is for writes only; a tool with `effect: read` has match, effect, "
                           "timeout, upgrade, credentials and declared");
    }
  } else {
    AddDefaultRef(tool);
    TellTemplates(draft, tool);
  }
  return tool;
}

void HideCredentials(Policy& policy) {
  for (const Tool& tool : policy.tools) {
    if (tool.backend >= policy.backends.size()) continue;
    std::vector<SecretHeader>& hidden = policy.backends[tool.backend].hidden;
    const auto hide = [&hidden](const std::vector<SecretHeader>& secrets) {
      for (const SecretHeader& secret : secrets) {
        const bool is_known = std::ranges::any_of(hidden, [&](const SecretHeader& one) {
          return !secret.token && one.file == secret.file && one.prefix == secret.prefix;
        });
        if (!is_known) hidden.push_back(secret);
      }
    };
    hide(policy.backends[tool.backend].secrets);
    hide(tool.secrets);
    for (const UndoRule* const undo : UndosOf(tool)) hide(undo->secrets);
    if (tool.approval) hide(tool.approval->secrets);
  }
}

}  // namespace

void LoadTools(const YamlNode& section, PolicyBuilder& draft) {
  if (section.kind != YamlNode::Kind::kMap) {
    draft.problems.Error(section.place, "tools", "a map of names to tools is accepted here");
    return;
  }
  for (const auto& member : section.members) {
    const std::string key = JoinKey("tools", member.name);
    if (!IsName(member.name)) {
      draft.problems.Error(member.name_place, key, std::string(kNameHelp));
    } else if (member.name == "unlisted" || member.name.starts_with("unlisted.")) {
      draft.problems.Error(member.name_place, key,
                           "'unlisted' stands for calls that no tool matches; take another name");
    }
    MapReader map(member.value, key, draft.problems);
    Tool tool = ReadTool(map, draft);
    tool.name = member.name;
    tool.line = member.name_place.line;
    if (!draft.tools.emplace(member.name, draft.policy.tools.size()).second) {
      draft.problems.Error(member.name_place, key, "this tool is defined in another file too");
      continue;
    }
    draft.policy.tools.push_back(std::move(tool));
    draft.tool_nodes.push_back(&member.value);
    draft.tool_places.push_back(member.name_place);
  }
  HideCredentials(draft.policy);
}

}  // namespace recourse
