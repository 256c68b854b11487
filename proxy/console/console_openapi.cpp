#include "proxy/console/console_openapi.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "proxy/admin/access/admin_paths.h"
#include "proxy/base/http/own_port.h"
#include "proxy/base/json/json.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

constexpr std::string_view kParameter =
    R"({"name": "ledger", "in": "query", "schema": {"type": "string"}, "description": )"
    R"("The ledger of that name alone; what names no ledger by an id and is no list takes it"})";
constexpr std::string_view kId =
    R"({"description": "The ledger's name and the id there; of a cursor over several ledgers, one )"
    R"(of each. What no request takes is without it.", )"
    R"("anyOf": [{"type": "integer"}, {"type": "string", )"
    R"("pattern": "^([a-z][a-z0-9-]*:)?([1-9][0-9]*\\.)?[0-9]+$"}, {"type": "string", )"
    R"("pattern": "^([a-z][a-z0-9-]*=[^~]+~?)+$"}], "examples": ["eu:42.17"]})";
constexpr std::string_view kLedger =
    R"({"type": "string", "description": "Whose it is, in a list of several"})";
constexpr std::string_view kLedgers =
    R"({"type": "array", "description": "Those of this console", "items": {"type": "object", )"
    R"("properties": {"name": {"type": "string"}, "state": {"enum": ["up", "away", "refused"]}, )"
    R"("why": {"type": "string"}, "who": {"type": "string", "description": "You are there"}, )"
    R"("roles": {"type": "array", "items": {"$ref": "#/components/schemas/Role"}}}, )"
    R"("required": ["name", "state", "roles"], "additionalProperties": false}})";
constexpr std::string_view kLastLine =
    R"({"type": "object", "properties": {}, "required": ["ledgers"]})";
// What a process says of itself, or of its policy, over all of them.
constexpr std::string_view kOfAll =
    R"({"type": "object", "description": "Of all ledgers: sums, and lists one after the other", )"
    R"("required": ["ledgers"]})";
constexpr std::array<std::string_view, 2> kOfProcesses = {admin_paths::kStatus,
                                                          admin_paths::kPolicyTools};
constexpr std::array<std::string_view, 4> kRows = {"ApprovalFacts", "EventFacts", "FlowFacts",
                                                   "FlowMove"};
constexpr std::array<std::string_view, 6> kWithLedgers = {
    "ApprovalPage", "EventLine", "EventPage", "FlowPage", "OperationPage", "Session"};

Json ValueOf(std::string_view text) { return ParseJson(text).value_or(Json()); }

Json* Member(Json& object, std::string_view name) {
  const auto found = std::ranges::find(object.members, name, &Json::Member::first);
  return found == object.members.end() ? nullptr : &found->second;
}
Json& MemberOrNew(Json& object, std::string_view name, Json::Kind kind) {
  if (Json* const found = Member(object, name)) return *found;
  Json made;
  made.kind = kind;
  object.members.push_back({std::string(name), std::move(made)});
  return object.members.back().second;
}

void AddProperty(Json& schemas, std::string_view schema, std::string_view name,
                 std::string_view what) {
  Json* const of = Member(schemas, schema);
  if (of == nullptr) return;
  if (Json* const any = Member(*of, "anyOf")) {  // of lines, whose last one it is
    any->items.push_back(ValueOf(kLastLine));
    MemberOrNew(any->items.back(), "properties", Json::Kind::kObject)
        .members.push_back({std::string(name), ValueOf(what)});
    return;
  }
  Json& properties = MemberOrNew(*of, "properties", Json::Kind::kObject);
  properties.members.push_back({std::string(name), ValueOf(what)});
}

void ChangePaths(Json& paths, std::span<const std::string_view> left_out) {
  std::erase_if(paths.members, [&](const Json::Member& path) {
    return std::ranges::find(left_out, path.first) != left_out.end();
  });
  for (auto& [path, item] : paths.members) {
    if (path == kPortPath || path == admin_paths::kSession) continue;
    for (auto& [method, operation] : item.members) {
      const Json* const security = operation.Find("security");
      if (!IsArray(security) || security->items.empty()) continue;
      MemberOrNew(operation, "parameters", Json::Kind::kArray).items.push_back(ValueOf(kParameter));
    }
  }
  for (const std::string_view path : kOfProcesses) {
    Json* at = Member(paths, path);
    for (const char* const name :
         {"get", "responses", "200", "content", "application/json", "schema"}) {
      at = at != nullptr ? Member(*at, name) : nullptr;
    }
    if (at == nullptr) continue;
    Json either;
    either.kind = Json::Kind::kObject;
    MemberOrNew(either, "anyOf", Json::Kind::kArray).items = {*at, ValueOf(kOfAll)};
    *at = std::move(either);
  }
}

}  // namespace

std::string ConsoleOpenApi(std::string_view document, std::span<const std::string_view> left_out) {
  Json json = ValueOf(document);
  if (Json* const paths = Member(json, "paths")) ChangePaths(*paths, left_out);
  Json* const components = Member(json, "components");
  Json* const schemas = components != nullptr ? Member(*components, "schemas") : nullptr;
  if (schemas != nullptr) {
    if (Json* const id = Member(*schemas, "Id")) *id = ValueOf(kId);
    for (const std::string_view row : kRows) AddProperty(*schemas, row, "ledger", kLedger);
    for (const std::string_view page : kWithLedgers) {
      AddProperty(*schemas, page, "ledgers", kLedgers);
    }
  }
  std::string out;
  AppendPlainJson(out, json);
  return out;
}

}  // namespace recourse
