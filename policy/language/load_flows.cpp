// `flows`: which writes belong together, and how that ends. `flow_rules`: what holds for every
// flow.
#include <algorithm>

#include "policy/language/load_rules.h"
#include "policy/language/place_problem.h"
#include "policy/language/policy_builder.h"
#include "policy/language/tls_files.h"
#include "policy/model/url.h"

namespace recourse {
namespace {

std::optional<std::size_t> FindTool(const LocatedText& name, PolicyBuilder& draft) {
  const auto found = draft.tools.find(name.text);
  if (found != draft.tools.end()) return found->second;
  draft.problems.Error(
      name.place, name.key,
      "no tool is called '" + name.text + "'" + DidYouMean(name.text, draft.ToolNames()));
  return std::nullopt;
}

bool Has(const Flow& flow, std::size_t tool) {
  return std::find(flow.tools.begin(), flow.tools.end(), tool) != flow.tools.end();
}

void ReadTools(MapReader& map, PolicyBuilder& draft, Flow& flow) {
  map.Need("tools", "the write tools whose calls belong together");
  for (const LocatedText& name : map.Texts("tools")) {
    const auto tool = FindTool(name, draft);
    if (!tool) continue;
    const auto [owner, is_new] = draft.flow_of_tool.try_emplace(*tool, flow.name, name.place);
    if (draft.policy.tools[*tool].effect == Effect::kRead) {
      draft.problems.Error(name.place, name.key, "this tool is a read; a flow is made of writes");
    } else if (Has(flow, *tool)) {
      draft.problems.Error(name.place, name.key, "this tool is named twice");
    } else if (!is_new) {
      draft.problems.Error(name.place, name.key,
                           "tool " + name.text + " is named in flow " + owner->second.first +
                               " too (" + draft.problems.NameOf(owner->second.second) +
                               "); a call's tool tells its flow, so a tool has one");
    } else {
      flow.tools.push_back(*tool);
    }
  }
}

// A tool of the flow whose success ends it.
std::optional<std::size_t> ReadOwnTool(MapReader& map, std::string_view word,
                                       std::string_view refusal, const Flow& flow,
                                       PolicyBuilder& draft) {
  const auto text = map.Text(word);
  if (!text) return std::nullopt;
  const LocatedText name{*text, map.node().Find(word)->place, map.KeyOf(word)};
  const auto tool = FindTool(name, draft);
  if (tool && !Has(flow, *tool)) {
    draft.problems.Error(name.place, name.key, std::string(refusal));
  }
  return tool;
}

void CheckWords(MapReader& map, const Flow& flow, PolicyBuilder& draft) {
  if (map.Has("on_deadline") && !map.Has("deadline")) {
    draft.problems.Error(map.PlaceOf("on_deadline"), map.KeyOf("on_deadline"),
                         "has no meaning without `deadline`");
  }
  if (flow.canceled_by && flow.canceled_by == flow.ends_with) {
    draft.problems.Error(map.PlaceOf("canceled_by"), map.KeyOf("canceled_by"),
                         "is the tool of `ends_with`: its success would complete the flow and "
                         "break it");
  }
  const bool has_pivot = std::any_of(flow.tools.begin(), flow.tools.end(), [&](std::size_t tool) {
    return draft.policy.tools[tool].pivot;
  });
  if (flow.undo_before_pivot && !has_pivot) {
    draft.problems.Error(map.PlaceOf("undo_before_pivot"), map.KeyOf("undo_before_pivot"),
                         "has no meaning: none of the flow's tools has `pivot: true`");
  }
}

void WarnAboutEnds(MapReader& map, const Flow& flow, PolicyBuilder& draft) {
  if (flow.ends_with && !map.Has("deadline")) {
    draft.problems.Warn(map.PlaceOf("ends_with"), map.KeyOf("ends_with"),
                        "is given without `deadline`: when the agent dies half-way, nothing "
                        "breaks the flow, and after an hour without writes it counts as complete");
  }
  if (flow.on_deadline != OnDeadline::kUndo || !map.Has("on_deadline")) return;
  for (const std::size_t index : flow.tools) {
    const Tool& tool = draft.policy.tools[index];
    if (tool.undo || !tool.reason.empty()) continue;
    draft.problems.Warn(map.PlaceOf("on_deadline"), map.KeyOf("on_deadline"),
                        "tool " + tool.name +
                            " has neither an undo nor a reason why it needs none: a flow in which "
                            "it ran is parked there, and a human must decide");
  }
}

Flow ReadFlow(MapReader& map, std::string name, PolicyBuilder& draft) {
  static constexpr std::pair<std::string_view, OnDeadline> kOnDeadline[] = {
      {"undo", OnDeadline::kUndo}, {"keep", OnDeadline::kKeep}, {"ask", OnDeadline::kAsk}};
  Flow flow;
  flow.name = std::move(name);
  ReadTools(map, draft, flow);
  flow.ends_with =
      ReadOwnTool(map, "ends_with", "a flow ends with one of its own tools", flow, draft);
  flow.canceled_by = ReadOwnTool(
      map, "canceled_by", "a flow is canceled by one of its own tools; name it in `tools` too",
      flow, draft);
  flow.deadline = map.Duration("deadline", Millis(1));
  flow.on_deadline = map.OneOf("on_deadline", kOnDeadline).value_or(flow.on_deadline);
  flow.undo_before_pivot = map.Bool("undo_before_pivot").value_or(false);
  flow.continue_on_stuck = map.Bool("continue_on_stuck").value_or(false);
  flow.irreversible_asks = map.Bool("irreversible_first_asks").value_or(false);
  map.Finish();
  CheckWords(map, flow, draft);
  WarnAboutEnds(map, flow, draft);
  return flow;
}

// Why no field of that name can name a flow; empty: it can, or no field is meant.
std::string WhyNoName(std::string_view text, const ScopeRule& scope) {
  if (scope.kind != ScopeRule::Kind::kHeader) return {};
  if (std::string why = WhyUnseen(text, scope.name); !why.empty()) return why;
  return IsCredentialField(scope.name)
             ? scope.name + " carries credentials, and the name of a flow is shown"
             : std::string();
}

void ReadParents(MapReader& map, FlowRules& rules) {
  using Kind = ScopeRule::Kind;
  for (const LocatedText& item : map.Texts("parent")) {
    auto scope = ParseScope(item.text);
    const bool names_a_place = scope && scope->kind != Kind::kTrace &&
                               scope->kind != Kind::kCaller && scope->kind != Kind::kGlobal;
    if (!names_a_place) {
      map.problems().Error(item.place, item.key,
                           "accepted: session, \"header:Name\", \"body#/pointer\", "
                           "\"baggage:name\"; a call that has none of them belongs to the flow of "
                           "its trace");
    } else if (std::string why = WhyNoName(item.text, *scope); !why.empty()) {
      map.problems().Error(item.place, item.key, std::move(why));
    } else {
      rules.parent.push_back(std::move(*scope));
    }
  }
}

void ReadWithoutTrace(MapReader& map, FlowRules& rules) {
  using Kind = WithoutTrace::Kind;
  const auto text = map.Text("without_trace");
  if (!text) return;
  const auto refuse = [&map](std::string problem) {
    map.problems().Error(map.PlaceOf("without_trace"), map.KeyOf("without_trace"),
                         std::move(problem));
  };
  if (*text == "none" || *text == "pod") {
    rules.without_trace.kind = *text == "pod" ? Kind::kPod : Kind::kNone;
    return;
  }
  auto place = ParseScope(*text);
  if (!place ||
      (place->kind != ScopeRule::Kind::kSession && place->kind != ScopeRule::Kind::kHeader)) {
    refuse("accepted: none, session, \"header:Name\", pod");
  } else if (std::string why = WhyNoName(*text, *place); !why.empty()) {
    refuse(std::move(why));
  } else {
    rules.without_trace = {Kind::kPlace, std::move(*place)};
  }
}

void ReadOrders(MapReader& map, FlowRules& rules) {
  for (const LocatedText& item : map.Texts("agents_may")) {
    if (item.text == "close") {
      rules.agent_may_close = true;
    } else if (item.text == "cancel") {
      rules.agent_may_cancel = true;
    } else {
      map.problems().Error(item.place, item.key, "accepted: close, cancel");
    }
  }
}

// Slack checks no signature, so there is no secret_file with its form, and one with all others.
void ReadWebhook(MapReader& rules, PolicyBuilder& draft) {
  using Format = FlowRules::Webhook::Format;
  static constexpr std::pair<std::string_view, Format> kFormats[] = {
      {"json", Format::kJson}, {"cloudevents", Format::kCloudEvents}, {"slack", Format::kSlack}};
  const YamlNode* node = rules.Get("webhook");
  if (node == nullptr) return;
  MapReader map(*node, rules.KeyOf("webhook"), draft.problems);
  map.Need("url", "where to tell what needs a human: url: \"https://pager.example/hook\"");
  const Format format = map.OneOf("format", kFormats).value_or(Format::kJson);
  const bool is_slack = format == Format::kSlack;
  if (!is_slack) map.Need("secret_file", "the mounted file whose first line signs what is told");
  const std::string url = map.Text("url").value_or("");
  FlowRules::Webhook hook{BackendFromUrl(url).value_or(Backend()),
                          map.Text("secret_file").value_or(""), format};
  hook.backend.name = "webhook";
  hook.backend.timeout = limits::kWebhookTimeout;
  hook.backend.tls_ca_file = map.Text("ca_file").value_or("");
  map.Finish();
  const auto refuse = [&](std::string_view word, const std::string& problem) {
    if (!problem.empty()) draft.problems.Error(map.PlaceOf(word), map.KeyOf(word), problem);
  };
  if (!url.empty()) refuse("url", UrlProblem(url));
  if (is_slack && !hook.secret_file.empty()) {
    refuse("secret_file",
           "leave it out with format: slack, which checks no signature: the url itself is the "
           "secret");
  }
  if (hook.backend.scheme == "http" && map.Has("ca_file")) {
    refuse("ca_file", "the url is http; use https or drop ca_file");
  }
  if (draft.tls_files == TlsFiles::kCheck) {
    const std::string& ca_file = hook.backend.tls_ca_file;
    if (!hook.secret_file.empty()) refuse("secret_file", SecretFileProblem(hook.secret_file));
    if (!ca_file.empty()) refuse("ca_file", CertificateFileProblem(ca_file));
  }
  draft.policy.flow_rules.webhook = std::move(hook);
}

}  // namespace

void LoadFlows(const YamlNode& section, PolicyBuilder& draft) {
  if (section.kind != YamlNode::Kind::kMap) {
    draft.problems.Error(section.place, "flows", "a map of names to flows is accepted here");
    return;
  }
  for (const auto& member : section.members) {
    const std::string key = JoinKey("flows", member.name);
    if (!IsName(member.name)) {
      draft.problems.Error(member.name_place, key, std::string(kNameHelp));
    }
    MapReader map(member.value, key, draft.problems);
    Flow flow = ReadFlow(map, member.name, draft);
    if (!draft.flows.emplace(member.name, member.name_place).second) {
      draft.problems.Error(member.name_place, key, "this flow is defined in another file too");
      continue;
    }
    draft.policy.flows.push_back(std::move(flow));
  }
}

void LoadFlowRules(const YamlNode& section, PolicyBuilder& draft) {
  MapReader map(section, "flow_rules", draft.problems);
  FlowRules& rules = draft.policy.flow_rules;
  ReadParents(map, rules);
  ReadWithoutTrace(map, rules);
  ReadOrders(map, rules);
  rules.undos_per_second = ReadCountUpTo(map, "undos_per_second", limits::kUndosPerSecondCap)
                               .value_or(rules.undos_per_second);
  ReadWebhook(map, draft);
  map.Finish();
}

}  // namespace recourse
