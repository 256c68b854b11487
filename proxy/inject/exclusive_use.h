// What in a pod is Recourse's alone, by whatever name an agent's container comes to it. Pure.
#pragma once

#include <optional>
#include <string>

#include "proxy/inject/pod_template.h"

namespace recourse {

// Why the container of the pod may not have the Secrets, or the ports, that it asks for.
std::optional<std::string> WhySecretIsOurs(const Json& pod, const Json& container,
                                           const PodTemplate& from);
std::optional<std::string> WhyPortIsOurs(const Json& container, const PodTemplate& from);

// Two of the sidecar's own ports are one.
std::optional<std::string> WhyPortsClash(const PodTemplate& from);

}  // namespace recourse
