#include <algorithm>

#include "policy/draft.h"
#include "policy/load_rules.h"
#include "policy/route_tree.h"

namespace recourse {
namespace {

constexpr std::string_view kMatchHelp =
    "accepted: \"METHOD backend /path\" with methods such as GET, POST|PUT or *, and a path such "
    "as "
    "/orders, /orders/{id} or /files/**";

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool IsMethod(std::string_view method) {
  return method == "*" || (!method.empty() && method.size() <= limits::kMethodBytesMax &&
                           std::all_of(method.begin(), method.end(),
                                       [](char c) { return (c >= 'A' && c <= 'Z') || c == '-'; }));
}

struct Route {
  std::vector<std::string> methods;
  std::size_t backend = 0;
  std::string pattern;
};

std::optional<Route> ReadRoute(const LocatedText& match, Draft& draft) {
  const auto refuse = [&](std::string message) {
    draft.problems.Error(match.place, match.key, std::move(message));
    return std::nullopt;
  };
  auto words = Split(match.text, ' ');
  std::erase(words, std::string());
  if (words.size() != 3) return refuse(std::string(kMatchHelp));
  Route route;
  route.methods = Split(words[0], '|');
  std::sort(route.methods.begin(), route.methods.end());
  const auto& methods = route.methods;
  if (!std::all_of(methods.begin(), methods.end(), IsMethod) ||
      (methods.size() > 1 && methods.front() == "*") ||
      std::adjacent_find(methods.begin(), methods.end()) != methods.end()) {
    return refuse("'" + words[0] +
                  "' is no list of methods; accepted: GET, POST|PUT, or * for any");
  }
  const auto backend = draft.backends.find(words[1]);
  if (backend == draft.backends.end()) {
    const auto names = draft.BackendNames();
    return refuse("no backend is called '" + words[1] + "'" + DidYouMean(words[1], names) +
                  (names.empty() ? "" : "; defined: " + JoinWords(names)));
  }
  route.backend = backend->second;
  if (const auto problem = CheckPattern(words[2]); !problem.empty()) {
    return refuse("path " + words[2] + ": " + std::string(problem));
  }
  route.pattern = words[2];
  return route;
}

void ReadMatch(MapReader& map, Draft& draft, Tool& tool) {
  map.Need("match", kMatchHelp);
  for (const LocatedText& match : map.Texts("match")) {
    auto route = ReadRoute(match, draft);
    if (!route) continue;
    if (tool.patterns.empty()) {
      tool.backend = route->backend;
      tool.methods = route->methods;
    } else if (route->backend != tool.backend || route->methods != tool.methods) {
      draft.problems.Error(match.place, match.key,
                           "all matches of a tool have one backend and the same methods; "
                           "make another tool of it");
      continue;
    }
    tool.patterns.push_back(std::move(route->pattern));
  }
}

void ReadScope(MapReader& map, Tool& tool) {
  const auto text = map.Text("scope");
  if (!text) return;
  if (auto scope = ParseScope(*text)) {
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
      map.problems().Error(item.place, item.key, "accepted: a JSON pointer such as /meta/sent_at");
      continue;
    }
    tool.ignore.emplace_back(pointer);
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
  static constexpr std::pair<std::string_view, bool> kTrace[] = {{"optional", false},
                                                                 {"required", true}};
  ReadScope(map, tool);
  tool.trace_required = map.OneOf("trace", kTrace).value_or(false);
  for (const LocatedText& item : map.Texts("identity")) {
    if (auto selector = ReadSelector(item, Reads::kRequest, map.problems())) {
      tool.identity.push_back(std::move(*selector));
    }
  }
  ReadIgnore(map, tool);
  tool.dedupe_window = map.Duration("dedupe_window", Millis(0)).value_or(tool.dedupe_window);
  tool.across_traces = map.OneOf("across_traces", kAcross).value_or(tool.across_traces);
  tool.on_mismatch = map.OneOf("on_mismatch", kMismatch).value_or(tool.on_mismatch);
}

void ReadExternalRef(MapReader& map, Tool& tool) {
  const auto text = map.Text("external_ref");
  if (!text) return;
  tool.external_ref =
      ReadSelector({*text, map.node().Find("external_ref")->place, map.KeyOf("external_ref")},
                   Reads::kRequestOrAnswer, map.problems());
}

void ReadOutcomeWords(MapReader& map, TlsFiles files, Tool& tool) {
  static constexpr std::pair<std::string_view, BreaksFlow> kBreaks[] = {
      {"never", BreaksFlow::kNever},
      {"on_failure", BreaksFlow::kOnFailure},
      {"on_unknown", BreaksFlow::kOnUnknown}};
  ReadExternalRef(map, tool);
  tool.settle = ReadSettle(map);
  tool.undo = ReadUndo(map, files);
  tool.approval = ReadApproval(map, files);
  tool.reason = map.Text("reason").value_or("");
  tool.breaks_flow = map.OneOf("breaks_flow", kBreaks).value_or(tool.breaks_flow);
  tool.pivot = map.Bool("pivot").value_or(false);
  tool.success_when = ReadConditions(map, "success_when", Reads::kAnswer);
  tool.failed_when = ReadConditions(map, "failed_when", Reads::kAnswer);
  tool.not_executed = ReadStatuses(map, "not_executed");
  tool.keep_headers = ReadKeepHeaders(map);
  tool.redact = ReadRedact(map);
  tool.failed_ttl = map.Duration("failed_ttl", Millis(0)).value_or(tool.failed_ttl);
  tool.hold = map.Duration("hold", Millis(0)).value_or(tool.hold);
}

// The agent's answer usually names what was made; most REST backends call it `id`.
void AddDefaultRef(Tool& tool) {
  if (tool.external_ref) return;
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
  if (tool.effect == Effect::kWrite) {
    map.problems().Error(map.PlaceOf("upgrade"), map.KeyOf("upgrade"),
                         "is for reads only: what a tunnel carries cannot be made repeatable");
  } else if (tool.methods != std::vector<std::string>{"GET"}) {
    map.problems().Error(
        map.PlaceOf("upgrade"), map.KeyOf("upgrade"),
        "an upgrade begins with a GET; accepted: a tool whose match has GET alone");
  }
}

Tool ReadTool(MapReader& map, Draft& draft) {
  static constexpr std::pair<std::string_view, Effect> kEffects[] = {{"read", Effect::kRead},
                                                                     {"write", Effect::kWrite}};
  Tool tool;
  ReadMatch(map, draft, tool);
  map.Need("effect", "accepted: read or write");
  tool.effect = map.OneOf("effect", kEffects).value_or(Effect::kWrite);
  tool.timeout = map.Duration("timeout", Millis(1));
  ReadUpgrades(map, tool);
  ReadKeyWords(map, tool);
  ReadOutcomeWords(map, draft.tls_files, tool);
  map.Finish();
  if (tool.effect == Effect::kRead) {
    for (const auto& member : map.node().members) {
      static constexpr std::string_view kOfReads[] = {"match", "effect", "timeout", "upgrade"};
      if (std::ranges::find(kOfReads, member.name) != std::end(kOfReads)) continue;
      if (!map.Knows(member.name)) continue;
      draft.problems.Error(member.name_place, map.KeyOf(member.name),
                           "is for writes only; a tool with `effect: read` has match, effect, "
                           "timeout and upgrade");
    }
  } else {
    AddDefaultRef(tool);
  }
  return tool;
}

}  // namespace

void LoadTools(const YamlNode& section, Draft& draft) {
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
}

}  // namespace recourse
