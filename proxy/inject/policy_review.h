// A ConfigMap that says it is a policy, before API servers take it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

struct PolicyVerdict {
  std::optional<std::string> refusal;  // a line for each error
  std::vector<std::string> warnings;   // lines for people, of any length
};

// What pods would make of the text under `key`, and what that changes for those that run; `before`
// is null where the ConfigMap is new.
PolicyVerdict JudgePolicy(const Json& config_map, const Json* before, const std::string& key);

}  // namespace recourse
