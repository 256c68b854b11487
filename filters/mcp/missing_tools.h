// Where a policy and its MCP servers disagree about tools.
#pragma once

#include <string>
#include <vector>

#include "filters/mcp/tool_catalog.h"
#include "policy/model/policy.h"

namespace recourse {

struct McpToolName {
  std::string backend, name;
};

// Tools that the policy names and their servers do not have: misspelt ones, mostly. In the order of
// the policy, each once. A server that nobody has listed yet has them all; globs name nobody.
std::vector<McpToolName> MissingTools(const Policy& policy, const ToolCatalog& book);

// Tools whose servers declare other effects than when the policy took them over (`declared`).
std::vector<McpToolName> RedeclaredTools(const Policy& policy, const ToolCatalog& book);

}  // namespace recourse
