#include "filters/mcp/missing_tools.h"

#include <algorithm>

#include "policy/model/tool_names.h"

namespace recourse {

std::vector<McpToolName> MissingTools(const Policy& policy, const ToolCatalog& book) {
  std::vector<McpToolName> missing;
  const auto look = [&](const Backend& backend, const std::string& name) {
    if (name.empty() || IsMcpGlob(name) || !book.IsMissing(ServerKeyOf(backend), name)) return;
    const bool is_known = std::ranges::any_of(missing, [&](const McpToolName& one) {
      return one.backend == backend.name && one.name == name;
    });
    if (!is_known) missing.push_back({backend.name, name});
  };
  for (const Tool& tool : policy.tools) {
    const Backend& backend = policy.backends[tool.backend];
    if (!backend.is_mcp()) continue;
    for (const std::string& name : tool.mcp_names) look(backend, name);
    for (const UndoRule* const undo : UndosOf(tool)) look(backend, undo->request.calls);
    if (tool.settle) look(backend, tool.settle->request.calls);
    if (tool.before) look(backend, tool.before->request.calls);
  }
  return missing;
}

std::vector<McpToolName> RedeclaredTools(const Policy& policy, const ToolCatalog& book) {
  std::vector<McpToolName> redeclared;
  for (const Tool& tool : policy.tools) {
    if (tool.declared.empty()) continue;
    const Backend& backend = policy.backends[tool.backend];
    for (const std::string& name : tool.mcp_names) {
      if (!book.DeclaresOther(ServerKeyOf(backend), name, tool.declared)) continue;
      redeclared.push_back({backend.name, name});
    }
  }
  return redeclared;
}

}  // namespace recourse
