#include "policy/model/mcp_twins.h"

#include <algorithm>

#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "policy/uri/twins.h"

namespace recourse {
namespace {

std::string WithoutJoints(std::string_view loose) {
  std::string plain(loose);
  std::erase(plain, '_');
  return plain;
}

}  // namespace

void McpTwins::Add(const std::string& name, const Tool& tool) {
  Entry entry{name, LooseMcpName(name), &tool};
  if (!IsMcpGlob(name)) {
    auto& same = exact_.try_emplace(WithoutJoints(entry.loose), entry).first->second;
    if (StrictnessOf(*same.tool) < StrictnessOf(tool)) same = std::move(entry);
    return;
  }
  const auto weight = [](const Entry& one) {
    return std::pair(McpLiterals(one.loose), StrictnessOf(*one.tool));
  };
  const auto place = std::ranges::upper_bound(globs_, weight(entry), std::greater(), weight);
  globs_.insert(place, std::move(entry));
}

McpTwins::Named McpTwins::Find(std::string_view loose) const {
  if (const auto same = exact_.find(WithoutJoints(loose)); same != exact_.end()) {
    return {&same->second.name, same->second.tool};
  }
  for (const Entry& glob : globs_) {
    if (MatchesMcpGlob(glob.loose, loose)) return {&glob.name, glob.tool};
  }
  return {};
}

McpTwins::Named McpTwins::StricterThan(int strictness, std::string_view name) const {
  if (exact_.empty() && globs_.empty()) return {};
  const std::string loose = LooseMcpName(name);
  for (const std::string_view reading : {std::string_view(loose), WithoutMcpNamespace(loose)}) {
    const Named found = Find(reading);
    if (found.tool != nullptr && StrictnessOf(*found.tool) > strictness) return found;
  }
  return {};
}

std::string ObjectionToMcpName(const Policy& policy, const Backend& backend, std::string_view name,
                               const Tool* tool, Effect effect) {
  const bool is_guarded =
      effect == Effect::kWrite && policy.unlisted_writes == UnlistedRule::kGuard;
  const int strictness = tool != nullptr ? StrictnessOf(*tool)
                         : is_guarded    ? kGuardedStrictness
                                         : 0;
  const auto twin = policy.routes->StricterMcpTwin(backend, name, strictness);
  if (twin.tool == nullptr) return {};
  return "some servers take the tool '" + ShownName(name) + "' for '" + *twin.name +
         "', which falls under the stricter rule of " + twin.tool->name +
         "; call it by that name, or name this one in the policy too";
}

}  // namespace recourse
