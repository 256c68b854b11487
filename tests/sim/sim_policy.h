// The policies that simulated runs choose from.
#pragma once

#include <memory>
#include <vector>

#include "policy/model/policy.h"

namespace recourse {

struct SimPolicy {
  std::shared_ptr<const Policy> policy;
  std::shared_ptr<const Policy> changed;  // says the same, and is another one
  bool goes_on = false;                   // continue_on_stuck
};

inline constexpr int kSimAttemptsMax = 5;

const std::vector<SimPolicy>& SimPolicies();

}  // namespace recourse
