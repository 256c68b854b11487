// Whether a pod is one in which Recourse keeps its promise.
#pragma once

#include <optional>
#include <string>

#include "proxy/inject/pod_template.h"

namespace recourse {

// Why the pod cannot have the sidecar as it is, and what to change; nullopt: it can.
std::optional<std::string> WhyNotInjected(const Json& pod, const PodTemplate& from);

// A label of the group that we do not give: an annotation at the wrong place, so that the agent
// would run unguarded.
std::optional<std::string> WhyNotLabelled(const Json& pod, const PodTemplate& from);

// A container of the sidecar's name that starts before the agents and stays: the pod may have the
// sidecar already, by an earlier question or by hand.
bool HasSidecar(const Json& pod);

// The same for a pod that has it: whether it is the one that would be added, and guards the pod.
std::optional<std::string> WhyNotGuarded(const Json& pod, const PodTemplate& from);

// All containers of the pod, in both of its lists.
std::vector<const Json*> ContainersOf(const Json& pod);

}  // namespace recourse
