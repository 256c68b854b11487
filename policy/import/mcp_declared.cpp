#include "policy/import/mcp_declared.h"

#include <algorithm>
#include <set>

#include "policy/import/import_text.h"
#include "policy/language/config_reader.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

// `match` says which requests the tool sends, where it is they that are spoken of.
std::vector<std::string> TakeCalls(YamlNode& effects, const std::string& key, Problems& problems) {
  std::vector<std::string> calls;
  const auto match = std::ranges::find(effects.members, "match", &YamlNode::Member::name);
  if (match == effects.members.end()) return calls;
  MapReader map(effects, key, problems);
  for (const LocatedText& call : map.Texts("match")) {
    const auto space = call.text.find(' ');
    if (space == std::string::npos || call.text.find(' ', space + 1) != std::string::npos) {
      problems.Error(call.place, call.key,
                     "accepted: \"POST /orders\" or \"mutation orderCreate\"");
    } else {
      calls.push_back(call.text);
    }
  }
  effects.members.erase(match);
  return calls;
}

void AddTool(McpToolInfo& info, const std::string& backend, std::set<std::string>& taken,
             McpDeclared& declared, Problems& problems) {
  YamlNode effects = *info.effects;
  const std::string key(kEffectMeta);
  std::vector<std::string> calls = TakeCalls(effects, key, problems);
  auto tool = ReadDeclaredTool(effects, key, problems);
  if (!tool) return;
  const bool is_own = calls.empty();
  if (is_own && (!CheckMcpName(info.name).empty() || IsMcpGlob(info.name))) return;
  if (is_own) {
    calls.push_back(std::string(kToolsCall) + ' ' + info.name);
    tool->backend = backend;
    tool->facts.members.push_back(MemberOf("declared", TextNodeOf(info.declared)));
  } else if (tool->backend.empty() && !declared.backends.empty()) {
    tool->backend = declared.backends.front().name;
  }
  tool->calls = std::move(calls);
  if (tool->name.empty()) tool->name = UniqueName(LegalName(info.name, 100), taken);
  declared.names[info.name] = tool->name;
  AddDeclared(declared.tools, std::move(*tool), problems);
}

}  // namespace

bool IsOwnCall(const DeclaredTool& tool) {
  return tool.calls.front().starts_with(std::string(kToolsCall) + ' ');
}

McpDeclared ReadMcpDeclared(McpServerInfo& server, const std::string& backend) {
  McpDeclared declared;
  Problems& problems = server.problems;
  if (server.effects) {
    declared.backends = ReadDeclaredBackends(*server.effects, std::string(kEffectMeta), problems);
  }
  std::set<std::string> taken;
  for (McpToolInfo& info : server.tools) {
    if (info.effects) AddTool(info, backend, taken, declared, problems);
  }
  std::vector<YamlNode::Member> backends = declared.backends, tools;
  YamlNode own =
      MapNodeOf({MemberOf("url", TextNodeOf(server.url)), MemberOf("protocol", TextNodeOf("mcp"))});
  backends.insert(backends.begin(), MemberOf(backend, std::move(own)));
  for (DeclaredTool& tool : declared.tools) {
    tool.facts.members.insert(tool.facts.members.begin(),
                              MemberOf("match", MatchOf(tool, tool.backend, problems)));
    YamlNode facts = tool.facts;
    if (LacksUndo(tool)) facts.members.push_back(MemberOf("undo", TextNodeOf("undecided")));
    tools.push_back({tool.name, tool.place, std::move(facts)});
  }
  const bool is_readable = !problems.has_errors() && !declared.tools.empty();
  if (is_readable) {
    (void)LoadDeclared(PolicyTreeOf(std::move(backends), std::move(tools)), declared.tools,
                       problems);
  }
  declared.problems = problems.Take();
  std::erase_if(declared.problems, [](const PolicyProblem& problem) {
    return problem.severity != PolicyProblem::Severity::kError;
  });
  return declared;
}

}  // namespace recourse
