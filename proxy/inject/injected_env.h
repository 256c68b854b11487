// The variables that lead an agent's calls to Recourse, beside those that its container has. Pure.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <utility>
#include <vector>

#include "proxy/inject/pod_template.h"

namespace recourse {

struct InjectedEnv {
  std::vector<Json> added;
  std::vector<std::pair<std::size_t, std::string>> changed;  // by the index in `env`: its new value
  std::string kept;  // the container's own that differ from ours and stay, by commas
};

// Fails with a sentence for whoever made the pod if what the container sets itself leads calls past
// Recourse.
std::expected<InjectedEnv, std::string> InjectedEnvFor(const Json& container,
                                                       const PodTemplate& from);

}  // namespace recourse
