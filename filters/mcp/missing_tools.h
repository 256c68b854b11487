// Tools of MCP servers that a policy names and their servers do not have: misspelt ones, mostly.
#pragma once

#include <string>
#include <vector>

#include "filters/mcp/tool_catalog.h"
#include "policy/model/policy.h"

namespace recourse {

struct MissingTool {
  std::string backend, name;
};

// In the order of the policy, each once. A server that nobody has listed yet has them all; globs
// name nobody.
std::vector<MissingTool> MissingTools(const Policy& policy, const ToolCatalog& book);

}  // namespace recourse
