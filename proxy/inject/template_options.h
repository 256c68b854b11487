// What the annotations of one pod change in what is added to it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/inject/pod_options.h"
#include "proxy/inject/pod_template.h"

namespace recourse {

PodTemplate TemplateFor(const PodOptions& options, const PodTemplate& from);

// The TCP ports that the sidecar listens on.
std::vector<std::int64_t> PortsOf(const PodTemplate& from);

}  // namespace recourse
