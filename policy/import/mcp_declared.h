// What the tools of an MCP server declare of their effects (`dev.recourse/effects`), read by the
// rules of the policy.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/effects/declared.h"
#include "policy/import/mcp_import.h"

namespace recourse {

struct McpDeclared {
  // With `match` and, where they are calls of the server's tools, `declared`.
  std::vector<DeclaredTool> tools;
  std::vector<YamlNode::Member> backends;    // that are not the server itself
  std::map<std::string, std::string> names;  // of the tool in the policy, by the server's
  std::vector<PolicyProblem> problems;
};

// Whether it is a call of the server's own tools, not the request that such a tool sends.
bool IsOwnCall(const DeclaredTool& tool);

// `backend`: the name of the server in the policy.
McpDeclared ReadMcpDeclared(McpServerInfo& server, const std::string& backend);

}  // namespace recourse
