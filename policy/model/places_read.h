// Which places of a call the policy reads. Pure.
#pragma once

#include <vector>

#include "policy/model/policy.h"

namespace recourse {

// Every place in a call of the tool that decides about it or goes into another request.
std::vector<Selector> PlacesRead(const Tool& tool);

}  // namespace recourse
