#include <algorithm>

#include "policy/draft.h"

namespace recourse {
namespace {

std::optional<std::size_t> FindTool(const LocatedText& name, Draft& draft) {
  const auto found = draft.tools.find(name.text);
  if (found != draft.tools.end()) return found->second;
  draft.problems.Error(
      name.place, name.key,
      "no tool is called '" + name.text + "'" + DidYouMean(name.text, draft.ToolNames()));
  return std::nullopt;
}

void ReadTools(MapReader& map, Draft& draft, Flow& flow) {
  map.Need("tools", "the write tools whose calls belong together");
  for (const LocatedText& name : map.Texts("tools")) {
    const auto tool = FindTool(name, draft);
    if (!tool) continue;
    if (draft.policy.tools[*tool].effect == Effect::kRead) {
      draft.problems.Error(name.place, name.key, "this tool is a read; a flow is made of writes");
    } else if (std::find(flow.tools.begin(), flow.tools.end(), *tool) != flow.tools.end()) {
      draft.problems.Error(name.place, name.key, "this tool is named twice");
    } else {
      flow.tools.push_back(*tool);
    }
  }
}

void ReadEnd(MapReader& map, Draft& draft, Flow& flow) {
  const auto text = map.Text("ends_with");
  if (!text) return;
  const LocatedText name{*text, map.node().Find("ends_with")->place, map.KeyOf("ends_with")};
  flow.ends_with = FindTool(name, draft);
  if (flow.ends_with &&
      std::find(flow.tools.begin(), flow.tools.end(), *flow.ends_with) == flow.tools.end()) {
    draft.problems.Error(name.place, name.key, "a flow ends with one of its own tools");
  }
}

Flow ReadFlow(MapReader& map, Draft& draft) {
  static constexpr std::pair<std::string_view, OnDeadline> kOnDeadline[] = {
      {"undo", OnDeadline::kUndo}, {"keep", OnDeadline::kKeep}, {"ask", OnDeadline::kAsk}};
  Flow flow;
  ReadTools(map, draft, flow);
  ReadEnd(map, draft, flow);
  flow.deadline = map.Duration("deadline", Millis(1));
  flow.on_deadline = map.OneOf("on_deadline", kOnDeadline).value_or(flow.on_deadline);
  map.Finish();
  if (map.Has("on_deadline") && !map.Has("deadline")) {
    draft.problems.Error(map.PlaceOf("on_deadline"), map.KeyOf("on_deadline"),
                         "has no meaning without `deadline`");
  }
  return flow;
}

}  // namespace

void LoadFlows(const YamlNode& section, Draft& draft) {
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
    Flow flow = ReadFlow(map, draft);
    flow.name = member.name;
    if (!draft.flows.emplace(member.name, member.name_place).second) {
      draft.problems.Error(member.name_place, key, "this flow is defined in another file too");
      continue;
    }
    draft.policy.flows.push_back(std::move(flow));
  }
}

}  // namespace recourse
