// What the annotations of one pod change in what is added to it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "proxy/inject/pod_options.h"
#include "proxy/inject/pod_template.h"

namespace recourse {

PodTemplate TemplateFor(const PodOptions& options, const PodTemplate& from);

// The init containers of a pod whose ledger is that volume of the template (null: one of its own):
// the node has room for it.
std::vector<Json> InitContainersFor(const Json* ledger, const PodTemplate& from);

// The TCP ports that the sidecar listens on.
std::vector<std::int64_t> PortsOf(const PodTemplate& from);

}  // namespace recourse
