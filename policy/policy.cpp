#include "policy/policy.h"

#include <algorithm>

#include "policy/route_table.h"

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

}  // namespace recourse
