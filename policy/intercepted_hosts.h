// Whom the pod's CA has to sign for.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace recourse {

// The names and addresses of the policy's intercepted backends, in order, each once.
std::vector<std::string> InterceptedHosts(const Policy& policy);

// The same for a CA, where an empty list would mean anybody: "invalid", which is nobody's name
// (RFC 6761), when the policy intercepts nothing.
std::vector<std::string> HostsToSignFor(const Policy& policy);

}  // namespace recourse
