// What tools of MCP servers must agree with elsewhere in the policy.
#include <algorithm>
#include <map>

#include "policy/language/policy_builder.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

struct NamedBy {
  std::string name;
  std::size_t tool = 0;
};

class NameChecks {
 public:
  explicit NameChecks(PolicyBuilder& draft) : draft_(draft) {}

  void Add(std::size_t index) {
    const Tool& tool = draft_.policy.tools[index];
    for (const std::string& name : tool.mcp_names) {
      if (IsMcpGlob(name)) {
        AddGlob(tool.backend, {name, index});
        continue;
      }
      const auto [owner, is_new] = exact_.try_emplace({tool.backend, name}, index);
      if (!is_new) Error({name, index}, owner->second, "matches the same calls");
    }
  }

 private:
  void AddGlob(std::size_t backend, const NamedBy& glob) {
    std::vector<NamedBy>& others = globs_[backend];
    if (others.size() == limits::kMcpGlobsMax) {
      draft_.problems.Error(draft_.ToolPlace(glob.tool, "match"),
                            draft_.ToolKey(glob.tool, "match"),
                            "more than " + std::to_string(limits::kMcpGlobsMax) +
                                " globs of one backend; name its tools");
      return;
    }
    const auto clash = std::find_if(others.begin(), others.end(), [&](const NamedBy& other) {
      if (other.tool == glob.tool) return other.name == glob.name;
      return McpLiterals(other.name) == McpLiterals(glob.name) &&
             McpNamesOverlap(other.name, glob.name);
    });
    if (clash != others.end()) {
      Error(glob, clash->tool,
            "has " + clash->name +
                ", which is as long and matches some of the same names; the glob with the most "
                "letters counts, so make one of them longer");
    }
    others.push_back(glob);
  }

  void Error(const NamedBy& one, std::size_t other, const std::string& why) {
    const bool is_same = one.tool == other;
    draft_.problems.Error(
        draft_.ToolPlace(one.tool, "match"), draft_.ToolKey(one.tool, "match"),
        is_same ? one.name + " is given twice"
                : one.name + " is ambiguous: tool " + draft_.policy.tools[other].name + ' ' + why);
  }

  PolicyBuilder& draft_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> exact_;
  std::map<std::size_t, std::vector<NamedBy>> globs_;
};

// A read whose glob covers names of a write's `name` and is less specific, or nullptr.
const Tool* CoveringRead(const Policy& policy, const Tool& write, const std::string& name) {
  for (const Tool& tool : policy.tools) {
    if (tool.effect != Effect::kRead || tool.backend != write.backend) continue;
    for (const std::string& glob : tool.mcp_names) {
      const bool is_wider =
          IsMcpGlob(glob) && (!IsMcpGlob(name) || McpLiterals(glob) < McpLiterals(name));
      if (is_wider && McpNamesOverlap(glob, name)) return &tool;
    }
  }
  return nullptr;
}

// What only asks must be a read of the policy.
void CheckAsks(PolicyBuilder& draft, const RouteTable& routes, std::size_t index,
               std::string_view word, const RequestTemplate& request) {
  if (request.calls.empty()) return;
  const Backend& backend = draft.policy.backends[draft.policy.tools[index].backend];
  const std::string& name = request.calls;
  const Tool* const read = routes.FindCalledTool(backend, name);
  if (read != nullptr && read->effect == Effect::kRead) return;
  draft.problems.Error(
      draft.ToolPlace(index, word), draft.ToolKey(index, word) + ".call",
      read == nullptr ? "no tool of this policy is tools/call " + backend.name + ' ' + name +
                            "; list it with `effect: read`: a request that asks must change nothing"
                      : name + " is tool " + read->name +
                            ", a write; a request that asks must change nothing: call a read");
}

}  // namespace

void CheckMcpNames(PolicyBuilder& draft) {
  NameChecks checks(draft);
  for (std::size_t i = 0; i < draft.policy.tools.size(); ++i) checks.Add(i);
}

void WarnAboutCoveredMcpWrite(PolicyBuilder& draft, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  for (const std::string& name : tool.mcp_names) {
    const Tool* const read = CoveringRead(draft.policy, tool, name);
    if (read == nullptr) continue;
    draft.problems.Warn(draft.ToolPlace(index, "match"), draft.ToolKey(index, "match"),
                        "the read " + read->name + " covers " + name +
                            " too; the more specific name wins; keep it so with a test: expect: { "
                            "tool: " +
                            tool.name + " }");
  }
}

void CheckMcpTool(PolicyBuilder& draft, const RouteTable& routes, std::size_t index) {
  const Tool& tool = draft.policy.tools[index];
  if (tool.mcp_names.empty()) return;
  CheckCaptures(draft, index, "redact", tool.redact);
  if (tool.approval && (tool.approval->answer != ApprovalAnswer::kAccepted ||
                        tool.approval->should_retry.has_value())) {
    draft.problems.Error(draft.ToolPlace(index, "approval"),
                         draft.ToolKey(index, "approval") + ".answer",
                         "is a status, and an MCP client gets a result while it waits; leave it "
                         "and should_retry out");
  }
  if (tool.settle) CheckAsks(draft, routes, index, "settle", tool.settle->request);
  if (tool.settled_by) CheckAsks(draft, routes, index, "settled_by", tool.settled_by->request);
  for (const UndoRule* const undo : UndosOf(tool)) {
    if (undo->settled_by) CheckAsks(draft, routes, index, "undo", undo->settled_by->request);
  }
}

}  // namespace recourse
