// Whether a pod is one in which Recourse keeps its promise.
#pragma once

#include <optional>
#include <string>

#include "proxy/inject/pod_template.h"

namespace recourse {

// Why the pod cannot have the sidecar as it is, and what to change; nullopt: it can.
std::optional<std::string> WhyNotInjected(const Json& pod, const PodTemplate& from);

// All containers of the pod, in both of its lists.
std::vector<const Json*> ContainersOf(const Json& pod);

}  // namespace recourse
