#include "policy/model/policy.h"

#include <algorithm>

#include "policy/model/route_table.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

std::string_view NameOf(Protocol protocol) {
  switch (protocol) {
    case Protocol::kHttp:
      return "http";
    case Protocol::kMcp:
      return "mcp";
    case Protocol::kGraphql:
      return "graphql";
  }
  return "http";
}

const SameAsRule* DoorOf(const Tool& tool, const CallValues& call) {
  const auto found = std::ranges::find_if(tool.same_as, [&](const SameAsRule& rule) {
    return std::ranges::all_of(rule.when, [&](const Condition& condition) {
      return Evaluate(condition, call).value_or(false);
    });
  });
  return found == tool.same_as.end() ? nullptr : &*found;
}

const KeyRule& KeyRuleOf(const Tool& tool, const Backend& backend) {
  return tool.key ? *tool.key : KeyRuleOfUndo(nullptr, backend);
}

const KeyRule& KeyRuleOfUndo(const UndoRule* rule, const Backend& backend) {
  static const KeyRule kNone;
  if (rule != nullptr && rule->key) return *rule->key;
  return backend.key.at.is_field() ? backend.key : kNone;
}

bool HasSecrets(const Backend& backend, const Tool* tool) {
  return !backend.secrets.empty() || (tool != nullptr && !tool->secrets.empty());
}

std::vector<SecretHeader> SecretsOf(const Backend& backend, const Tool* tool) {
  std::vector<SecretHeader> secrets;
  if (tool != nullptr) secrets = tool->secrets;
  const std::size_t own = secrets.size();
  for (const SecretHeader& secret : backend.secrets) {
    const auto is_own = [&secret](const SecretHeader& one) {
      return EqualsIgnoreCase(one.name, secret.name);
    };
    const auto end = secrets.begin() + static_cast<std::ptrdiff_t>(own);
    if (std::none_of(secrets.begin(), end, is_own)) secrets.push_back(secret);
  }
  return secrets;
}

const Backend& CalledFor(const Tool* tool, const Backend& backend, std::optional<Backend>& room) {
  if (tool == nullptr || tool->secrets.empty()) return backend;
  room = backend;
  room->secrets = SecretsOf(backend, tool);
  return *room;
}

std::vector<const UndoRule*> UndosOf(const Tool& tool) {
  std::vector<const UndoRule*> all;
  if (tool.undo) all.push_back(&*tool.undo);
  for (const UndoRule& other : tool.other_undos) all.push_back(&other);
  return all;
}

Policy::Policy() = default;
Policy::~Policy() = default;
Policy::Policy(Policy&&) noexcept = default;

const Tool* Policy::FindTool(std::string_view name) const {
  if (routes) return routes->FindTool(name);
  const auto found = std::find_if(tools.begin(), tools.end(),
                                  [name](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

bool Policy::AreDoors(const Tool& tool, std::string_view other) const {
  if (tool.name == other) return false;
  const Tool* const there = FindTool(other);
  if (there == nullptr) return false;
  const auto leads_to = [](const Tool& door, std::string_view name) {
    return std::ranges::any_of(door.same_as,
                               [name](const SameAsRule& rule) { return rule.tool == name; });
  };
  return leads_to(tool, other) || leads_to(*there, tool.name) ||
         std::ranges::any_of(tool.same_as,
                             [&](const SameAsRule& rule) { return leads_to(*there, rule.tool); });
}

const Flow* Policy::FlowOf(const Tool& tool) const {
  const auto found = std::find_if(flows.begin(), flows.end(), [&](const Flow& flow) {
    return std::any_of(flow.tools.begin(), flow.tools.end(),
                       [&](std::size_t index) { return &tools[index] == &tool; });
  });
  return found == flows.end() ? nullptr : &*found;
}

const Flow* Policy::FindFlow(std::string_view name) const {
  const auto found = std::find_if(flows.begin(), flows.end(),
                                  [name](const Flow& flow) { return flow.name == name; });
  return found == flows.end() ? nullptr : &*found;
}

}  // namespace recourse
