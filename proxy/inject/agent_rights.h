// Rights of a pod's agents with which they could get past Recourse, or at what is its own. Pure.
#pragma once

#include <string>
#include <vector>

#include "proxy/inject/pod_template.h"

namespace recourse {

struct AgentRights {
  std::vector<std::string> unsafe;    // what to take away, and what it breaks; a sentence each
  std::vector<std::string> doubtful;  // what a container has unless it says otherwise
};

AgentRights RightsOf(const Json& pod, const std::vector<const Json*>& agents,
                     const PodTemplate& from);

}  // namespace recourse
