// What of an MCP server's tools a starting policy can be made of. Pure.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/language/yaml_reader.h"
#include "proxy/base/json/json.h"

namespace recourse {

// One tool as tools/list shows it. Hints are claims of the server.
struct McpToolInfo {
  std::string name, description;
  std::optional<bool> read_only, destructive, idempotent;
  std::vector<std::string> arguments;  // names, in their order
  std::vector<std::string> required;   // of these
  // Required arguments that are no free texts, where one of them looks like an id.
  std::vector<std::string> ids;
  // It makes or changes something in what they name, by the verb in its name: two calls with equal
  // ones may mean two things.
  bool is_within_ids = false;
  std::vector<std::string> free_texts;  // arguments that are texts without a fixed set of values
  std::optional<YamlNode> effects{};    // what it declares of them (`dev.recourse/effects`)
  std::string declared;                 // the digest of that
};

struct McpServerInfo {
  std::string url, name, version;
  std::string protocol;  // 2025-11-25
  std::vector<McpToolInfo> tools;
  std::vector<std::string> notes;     // what could not be understood
  std::optional<YamlNode> effects{};  // what its list declares of a whole API
  Problems problems{};                // knows where what is declared stands
};

// Adds the tools of one result of tools/list. False: it is none.
bool AddMcpTools(const Json& result, McpServerInfo& server);

// The tool that seems to take back what `name` does, by the verbs in their names: cancel_order for
// create_order. nullptr: none.
const McpToolInfo* FindMcpUndo(const McpServerInfo& server, std::string_view name);

// Whether what the server declares is put in force, or only shown.
enum class McpTrust : std::uint8_t { kShow, kBelieve };

// A policy that `recourse policy check` accepts; what it guesses is marked `# CHECK:`. Fails with
// what is wrong in declarations that are to be believed.
std::expected<std::string, std::string> PolicyFromMcp(McpServerInfo server,
                                                      McpTrust trust = McpTrust::kShow);

}  // namespace recourse
