// How files become the policy of a process.
#pragma once

#include <functional>

#include "policy/files/sources.h"
#include "policy/language/loader.h"

namespace recourse {

// Whether files that the policy names must be there and fit is asked when it is to come into force.
using PolicyLoader = std::function<LoadedPolicy(const PolicySources& sources, TlsFiles files)>;

}  // namespace recourse
