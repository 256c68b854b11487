#include "policy/model/policy.h"

#include <algorithm>

#include "policy/model/route_table.h"

namespace recourse {

Policy::Policy() = default;
Policy::~Policy() = default;
Policy::Policy(Policy&&) noexcept = default;

const Tool* Policy::FindTool(std::string_view name) const {
  if (routes) return routes->FindTool(name);
  const auto found = std::find_if(tools.begin(), tools.end(),
                                  [name](const Tool& tool) { return tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
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
