// The pods that a workload makes, before it makes them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proxy/base/json/json.h"

namespace recourse {

// A pod as the controller of the object, of that group and resource ("apps", "deployments"), will
// ask for it; nullopt: it makes none.
std::optional<Json> PodOfWorkload(const Json& object, std::string_view group,
                                  std::string_view resource);

// Why two of its pods would have one claim with one ledger, and what to change.
std::optional<std::string> WhyPodsShareClaim(const Json& object, std::string_view group,
                                             std::string_view resource);

}  // namespace recourse
