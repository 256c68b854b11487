// Whom the pod's CA has to sign for.
#pragma once

#include <string>
#include <vector>

#include "policy/model/policy.h"

namespace recourse {

// The names and addresses of the policy's intercepted backends, in order, each once.
std::vector<std::string> InterceptedHosts(const Policy& policy);

}  // namespace recourse
