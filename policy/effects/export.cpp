#include "policy/effects/export.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "policy/effects/declared.h"
#include "policy/effects/node_text.h"
#include "policy/model/tool_names.h"
#include "policy/undo/undo_class.h"
#include "proxy/base/http/http_message.h"

namespace recourse {
namespace {

using Member = YamlNode::Member;

YamlNode ListNodeOf(std::vector<YamlNode> items) {
  YamlNode node;
  node.kind = YamlNode::Kind::kList;
  node.items = std::move(items);
  return node;
}

YamlNode WordNodeOf(std::string word) {
  YamlNode node = TextNodeOf(std::move(word));
  node.is_quoted = false;
  return node;
}

// The words of the tool that its owner may say, after its backend and class.
YamlNode FactsOf(const Policy& policy, const Tool& tool, const YamlNode& words) {
  std::vector<Member> facts{
      MemberOf("backend", TextNodeOf(policy.backends[tool.backend].name)),
      MemberOf("class", TextNodeOf(std::string(UndoClassName(UndoClassOf(tool)))))};
  for (const Member& word : words.members) {
    if (IsToolFact(word.name)) facts.push_back(word);
  }
  return MapNodeOf(std::move(facts));
}

YamlNode BackendsOf(const YamlNode& tree) {
  YamlNode all = MapNodeOf({});
  for (const Member& backend : tree.Find("backends")->members) {
    const YamlNode* const protocol = backend.value.Find("protocol");
    if (protocol != nullptr && protocol->text == NameOf(Protocol::kMcp)) continue;
    YamlNode facts = backend.value;
    std::erase_if(facts.members, [](const Member& word) { return !IsBackendFact(word.name); });
    all.members.push_back(MemberOf(backend.name, std::move(facts)));
  }
  return MapNodeOf({MemberOf("backends", std::move(all))});
}

YamlNode& MemberIn(YamlNode& map, const std::string& name) {
  const auto found = std::ranges::find(map.members, name, &Member::name);
  if (found != map.members.end()) return found->value;
  map.members.push_back(MemberOf(name, MapNodeOf({})));
  return map.members.back().value;
}

// "POST /orders" of each way to call it.
std::vector<std::string> CallsOf(const Tool& tool) {
  std::vector<std::string> calls;
  for (const std::string& pattern : tool.patterns) {
    for (const std::string& method : tool.methods) calls.push_back(method + ' ' + pattern);
  }
  for (const std::string& field : tool.mutations) {
    calls.push_back(std::string(kMutation) + ' ' + field);
  }
  return calls;
}

YamlNode ActionNode(std::string target, std::string about, YamlNode update) {
  std::vector<Member> action{MemberOf("target", TextNodeOf(std::move(target)))};
  if (!about.empty()) action.push_back(MemberOf("description", TextNodeOf(std::move(about))));
  action.push_back(MemberOf("update", std::move(update)));
  return MapNodeOf(std::move(action));
}

void AddPaths(const Policy& policy, const Tool& tool, const YamlNode& facts, YamlNode& paths) {
  YamlNode named = facts;
  named.members.insert(named.members.begin(), MemberOf("name", TextNodeOf(tool.name)));
  const Backend& backend = policy.backends[tool.backend];
  for (const std::string& field : tool.mutations) {
    YamlNode& effect = MemberIn(MemberIn(MemberIn(paths, backend.endpoint), "post"),
                                std::string(kEffectExtension));
    MemberIn(MemberIn(effect, "mutations"), field) = named;
  }
  for (const std::string& pattern : tool.patterns) {
    for (const std::string& method : tool.methods) {
      YamlNode& operation = MemberIn(MemberIn(paths, pattern), ToLower(method));
      MemberIn(operation, std::string(kEffectExtension)) = named;
    }
  }
}

YamlNode MetaNode(YamlNode effects) {
  return MapNodeOf({MemberOf(std::string(kEffectMeta), std::move(effects))});
}

YamlNode McpToolNode(const Tool& tool, std::string name, YamlNode effects) {
  YamlNode read_only = WordNodeOf(tool.effect == Effect::kRead ? "true" : "false");
  return MapNodeOf(
      {MemberOf("name", TextNodeOf(std::move(name))),
       MemberOf("inputSchema", MapNodeOf({MemberOf("type", TextNodeOf("object"))})),
       MemberOf("annotations", MapNodeOf({MemberOf("readOnlyHint", std::move(read_only))})),
       MemberOf("_meta", MetaNode(std::move(effects)))});
}

}  // namespace

std::string OverlayOf(std::string_view title, std::string_view about, const Policy& policy,
                      const YamlNode& tree) {
  YamlNode paths = MapNodeOf({});
  for (const Tool& tool : policy.tools) {
    if (!tool.mcp_names.empty()) continue;  // of another server, which declares them itself
    const YamlNode& words = *tree.Find("tools")->Find(tool.name);
    AddPaths(policy, tool, FactsOf(policy, tool, words), paths);
  }
  YamlNode root = MapNodeOf({MemberOf(std::string(kEffectExtension), BackendsOf(tree))});
  YamlNode info = MapNodeOf({MemberOf("title", TextNodeOf("Effects of " + std::string(title))),
                             MemberOf("version", TextNodeOf("1.0.0"))});
  return YamlTextOf(
      MapNodeOf(
          {MemberOf("overlay", WordNodeOf("1.0.0")), MemberOf("info", std::move(info)),
           MemberOf("actions", ListNodeOf({ActionNode("$", std::string(about), std::move(root)),
                                           ActionNode("$.paths", "", std::move(paths))}))}),
      0);
}

std::string McpToolsOf(const Policy& policy, const YamlNode& tree) {
  std::vector<YamlNode> tools;
  for (const Tool& tool : policy.tools) {
    YamlNode effects = FactsOf(policy, tool, *tree.Find("tools")->Find(tool.name));
    if (tool.mcp_names.empty()) {
      std::vector<YamlNode> calls;
      for (std::string& call : CallsOf(tool)) calls.push_back(TextNodeOf(std::move(call)));
      effects.members.insert(effects.members.begin(),
                             MemberOf("match", ListNodeOf(std::move(calls))));
      tools.push_back(McpToolNode(tool, tool.name, std::move(effects)));
      continue;
    }
    effects.members.insert(effects.members.begin(), MemberOf("name", TextNodeOf(tool.name)));
    for (const std::string& name : tool.mcp_names) {
      if (!IsMcpGlob(name)) tools.push_back(McpToolNode(tool, name, effects));
    }
  }
  return JsonTextOf(MapNodeOf({MemberOf("tools", ListNodeOf(std::move(tools))),
                               MemberOf("_meta", MetaNode(BackendsOf(tree)))}));
}

}  // namespace recourse
