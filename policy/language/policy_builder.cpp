#include "policy/language/policy_builder.h"

#include <algorithm>
#include <array>

#include "policy/language/load_rules.h"

namespace recourse {

Place PolicyBuilder::ToolPlace(std::size_t tool, std::string_view word) const {
  for (const auto& member : tool_nodes[tool]->members) {
    if (member.name == word) return member.value.place;
  }
  return tool_places[tool];
}

std::string PolicyBuilder::ToolKey(std::size_t tool, std::string_view word) const {
  return JoinKey("tools." + policy.tools[tool].name, word);
}

bool PolicyBuilder::ToolHas(std::size_t tool, std::string_view word) const {
  return tool_nodes[tool]->Find(word) != nullptr;
}

bool PolicyBuilder::HasSettle(std::size_t tool) const {
  const YamlNode* const settle = tool_nodes[tool]->Find("settle");
  return settle != nullptr && !SaysNone(*settle);
}

std::vector<std::string> PolicyBuilder::BackendNames() const {
  std::vector<std::string> names;
  for (const auto& [name, index] : backends) names.push_back(name);
  return names;
}

std::vector<std::string> PolicyBuilder::ToolNames() const {
  std::vector<std::string> names;
  for (const auto& [name, index] : tools) names.push_back(name);
  return names;
}

bool HasMatch(const Tool& tool) { return !tool.patterns.empty() || tool.is_named(); }

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

bool IsReservedHeader(std::string_view name) {
  static constexpr std::array<std::string_view, 16> kReserved{
      "Host",   "Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection",
      "TE",     "Trailer",        "Upgrade",           "Keep-Alive", "Expect",
      "Via",    "Forwarded",      "Traceparent",       "Date",       "Proxy-Authorization",
      "Baggage"};
  return std::any_of(kReserved.begin(), kReserved.end(), [name](std::string_view reserved) {
    return EqualsIgnoreCase(reserved, name);
  });
}

}  // namespace recourse
