// How files become the policy of a process.
#pragma once

#include <functional>

#include "policy/loader.h"
#include "policy/sources.h"

namespace recourse {

// Whether files that the policy names must be there and fit is asked when it is to come into force.
using PolicyLoader = std::function<LoadedPolicy(const PolicySources& sources, TlsFiles files)>;

}  // namespace recourse
