#include <algorithm>
#include <cctype>
#include <span>

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

// One that can stand in a pointer, and in a comment, as it is.
bool IsPointerName(std::string_view name) {
  return std::ranges::all_of(name,
                             [](char c) { return c >= 0x20 && c < 0x7f && c != '/' && c != '~'; });
}

// The type of a value that may be left out or null: generators write that as alternatives.
std::string_view TypeOf(const Json& property) {
  static constexpr std::string_view kNull = "null";
  const Json* const type = property.Find("type");
  if (type != nullptr && type->kind == Json::Kind::kString) return type->text;
  std::string_view found;
  if (IsArray(type)) {
    for (const Json& one : type->items) {
      if (one.text == kNull) continue;
      if (!found.empty()) return {};
      found = one.text;
    }
    return found;
  }
  for (const char* const word : {"anyOf", "oneOf"}) {
    const Json* const alternatives = property.Find(word);
    if (!IsArray(alternatives)) continue;
    for (const Json& one : alternatives->items) {
      const std::string_view inner = IsObject(&one) ? TextOf(one, "type") : std::string_view();
      if (inner == kNull) continue;
      if (!found.empty() || inner.empty()) return {};
      found = inner;
    }
  }
  return found;
}

// What a model words anew each time, whatever else is in the call.
bool IsWordedName(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "body",     "caption", "comment", "content", "description", "html",   "instructions",
      "markdown", "memo",    "message", "note",    "notes",       "prompt", "query",
      "reason",   "subject", "summary", "text",    "title"};
  const std::vector<std::string> words = WordsOf(name);
  return !words.empty() && std::ranges::find(kNames, words.back()) != std::end(kNames);
}

bool HasOneOf(const std::vector<std::string>& words, std::span<const std::string_view> wanted) {
  return std::ranges::any_of(words, [wanted](const std::string& word) {
    return std::ranges::find(wanted, word) != wanted.end();
  });
}

// A channel is no message, and a page no new version of itself.
bool IsWithin(std::string_view tool) {
  static constexpr std::string_view kEnds[] = {"archive", "cancel", "close",  "delete",
                                               "erase",   "refund", "remove", "void"};
  static constexpr std::string_view kMakes[] = {
      "add",     "append",  "assign",   "change", "comment", "copy",   "create", "edit",
      "exec",    "execute", "fork",     "email",  "invite",  "insert", "make",   "message",
      "modify",  "move",    "generate", "new",    "notify",  "patch",  "post",   "push",
      "publish", "put",     "rename",   "reply",  "run",     "save",   "scale",  "send",
      "set",     "start",   "update",   "upload", "upsert",  "write"};
  const std::vector<std::string> words = WordsOf(tool);
  return HasOneOf(words, kMakes) && !HasOneOf(words, kEnds);
}

// One that the caller makes up for this very call.
bool IsOwnName(std::string_view name) {
  static constexpr std::string_view kWhole[] = {"ref", "reference", "uuid", "guid"};
  static constexpr std::string_view kOwners[] = {"cart",        "client",  "external",
                                                 "idempotency", "request", "transaction"};
  const std::vector<std::string> words = WordsOf(name);
  if (words.empty()) return false;
  using Words = std::span<const std::string_view>;
  return HasOneOf({words.front()}, words.size() == 1 ? Words(kWhole) : Words(kOwners));
}

void ReadArguments(const Json& schema, McpToolInfo& tool) {
  if (schema.kind != Json::Kind::kObject) return;
  if (const Json* required = schema.Find("required")) {
    for (const Json& name : required->items) {
      if (name.kind == Json::Kind::kString) tool.required.push_back(name.text);
    }
  }
  const Json* properties = schema.Find("properties");
  if (properties == nullptr || properties->kind != Json::Kind::kObject) return;
  bool has_id = false, has_own = false;
  for (const auto& [name, property] : properties->members) {
    tool.arguments.push_back(name);
    if (property.kind != Json::Kind::kObject) continue;
    const std::string_view type = TypeOf(property);
    const bool is_scalar = type == "string" || type == "integer" || type == "number";
    const bool is_set = property.Find("enum") != nullptr || property.Find("const") != nullptr;
    const bool is_worded = type == "string" && !is_set && IsWordedName(name);
    if (is_scalar && !is_worded && IsPointerName(name) && Has(tool.required, name)) {
      tool.ids.push_back(name);
      has_id =
          has_id || LooksLikeIdName(name) || name.ends_with("_number") || name.ends_with("Number");
      has_own = has_own || IsOwnName(name);
    }
    if (type == "string" && !is_set && property.Find("format") == nullptr) {
      tool.free_texts.push_back(name);
    }
  }
  if (!has_id) tool.ids.clear();
  std::erase_if(tool.free_texts, [&](const std::string& name) { return Has(tool.ids, name); });
  tool.is_within_ids = IsWithin(tool.name) && !has_own;
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
  for (std::size_t at = 0; at < words.size(); ++at) {
    for (const std::string_view undo : UndosOf(words[at])) {
      std::vector<std::string> opposite = words;
      opposite[at] = undo;
      if (const McpToolInfo* found = FindByWords(server, opposite)) return found;
    }
  }
  return nullptr;
}

}  // namespace recourse
