#include <algorithm>
#include <cctype>

#include "policy/effects/declared_digest.h"
#include "policy/effects/node_text.h"
#include "policy/import/import_text.h"
#include "policy/import/mcp_import.h"
#include "policy/uri/opposites.h"
#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse {
namespace {

std::optional<bool> BoolAt(const Json* object, std::string_view name) {
  const Json* value =
      object != nullptr && object->kind == Json::Kind::kObject ? object->Find(name) : nullptr;
  if (value == nullptr) return std::nullopt;
  if (value->kind == Json::Kind::kTrue) return true;
  if (value->kind == Json::Kind::kFalse) return false;
  return std::nullopt;
}

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsPointerName(std::string_view name) { return name.find_first_of("/~") == name.npos; }

void ReadArguments(const Json& schema, McpToolInfo& tool) {
  if (schema.kind != Json::Kind::kObject) return;
  if (const Json* required = schema.Find("required")) {
    for (const Json& name : required->items) {
      if (name.kind == Json::Kind::kString) tool.required.push_back(name.text);
    }
  }
  const Json* properties = schema.Find("properties");
  if (properties == nullptr || properties->kind != Json::Kind::kObject) return;
  for (const auto& [name, property] : properties->members) {
    tool.has_arguments = true;
    const std::string_view type = TextOf(property, "type");
    const bool is_scalar = type == "string" || type == "integer" || type == "number";
    if (is_scalar && LooksLikeIdName(name) && IsPointerName(name) && Has(tool.required, name)) {
      tool.ids.push_back(name);
    } else if (type == "string" && property.Find("enum") == nullptr &&
               property.Find("const") == nullptr && property.Find("format") == nullptr) {
      tool.free_texts.push_back(name);
    }
  }
}

std::optional<YamlNode> EffectsIn(const Json& holder, McpServerInfo& server,
                                  const std::string& where) {
  const Json* const declared = DeclaredEffects(holder);
  if (declared == nullptr) return std::nullopt;
  const std::size_t file = server.problems.AddFile(server.url + ' ' + where);
  return NodeOf(*declared, {file, 0, 0});
}

McpToolInfo ReadTool(const Json& entry, McpServerInfo& server) {
  McpToolInfo tool;
  tool.name = TextOf(entry, "name");
  tool.effects = EffectsIn(entry, server, tool.name);
  tool.declared = DeclaredDigest(entry);
  tool.description = TextOf(entry, "description");
  if (tool.description.empty()) tool.description = TextOf(entry, "title");
  const Json* const hints = entry.Find("annotations");
  tool.read_only = BoolAt(hints, "readOnlyHint");
  tool.destructive = BoolAt(hints, "destructiveHint");
  tool.idempotent = BoolAt(hints, "idempotentHint");
  if (const Json* schema = entry.Find("inputSchema")) ReadArguments(*schema, tool);
  return tool;
}

const McpToolInfo* FindByWords(const McpServerInfo& server, const std::vector<std::string>& words) {
  const auto found =
      std::find_if(server.tools.begin(), server.tools.end(), [&](const McpToolInfo& tool) {
        return !tool.read_only.value_or(false) && WordsOf(tool.name) == words;
      });
  return found == server.tools.end() ? nullptr : &*found;
}

}  // namespace

bool AddMcpTools(const Json& result, McpServerInfo& server) {
  const Json* tools = result.kind == Json::Kind::kObject ? result.Find("tools") : nullptr;
  if (tools == nullptr || tools->kind != Json::Kind::kArray) return false;
  if (!server.effects) server.effects = EffectsIn(result, server, "tools/list");
  for (const Json& entry : tools->items) {
    if (server.tools.size() == limits::kImportedToolsMax) {
      server.notes.push_back("more than " + std::to_string(limits::kImportedToolsMax) +
                             " tools; the others are left out");
      return true;
    }
    if (entry.kind != Json::Kind::kObject || TextOf(entry, "name").empty()) {
      server.notes.emplace_back("a tool without a name is left out");
      continue;
    }
    McpToolInfo tool = ReadTool(entry, server);
    const bool is_known = std::any_of(server.tools.begin(), server.tools.end(),
                                      [&](const auto& other) { return other.name == tool.name; });
    if (is_known) {
      server.notes.push_back("the server lists " + tool.name + " twice; the first one counts");
    } else {
      server.tools.push_back(std::move(tool));
    }
  }
  return true;
}

const McpToolInfo* FindMcpUndo(const McpServerInfo& server, std::string_view name) {
  const std::vector<std::string> words = WordsOf(name);
  for (const Opposite& pair : Opposites()) {
    const auto verb = std::find(words.begin(), words.end(), pair.verb);
    if (verb == words.end()) continue;
    std::vector<std::string> opposite = words;
    opposite[static_cast<std::size_t>(verb - words.begin())] = pair.opposite;
    if (const McpToolInfo* found = FindByWords(server, opposite)) return found;
  }
  return nullptr;
}

}  // namespace recourse
