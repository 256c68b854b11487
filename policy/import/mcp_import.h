// What of an MCP server's tools a starting policy can be made of. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

// One tool as tools/list shows it. Hints are claims of the server.
struct McpToolInfo {
  std::string name, description;
  std::optional<bool> read_only, destructive, idempotent;
  std::vector<std::string> required;    // arguments
  std::vector<std::string> ids;         // required arguments that look like ids
  std::vector<std::string> free_texts;  // arguments that are texts without a fixed set of values
  bool has_arguments = false;
};

struct McpServerInfo {
  std::string url, name, version;
  std::string protocol;  // 2025-11-25
  std::vector<McpToolInfo> tools;
  std::vector<std::string> notes;  // what could not be understood
};

// Adds the tools of one result of tools/list. False: it is none.
bool AddMcpTools(const Json& result, McpServerInfo& server);

// The tool that seems to take back what `name` does, by the verbs in their names: cancel_order for
// create_order. nullptr: none.
const McpToolInfo* FindMcpUndo(const McpServerInfo& server, std::string_view name);

// A policy that `recourse policy check` accepts; what it guesses is marked `# CHECK:`.
std::string PolicyFromMcp(const McpServerInfo& server);

}  // namespace recourse
