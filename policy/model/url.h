// Where a url leads.
#pragma once

#include <optional>
#include <string_view>

#include "policy/model/policy.h"

namespace recourse {

// A backend without a name and with standard rules: scheme, host, port, path. nullopt: the url is
// none that a policy may have.
std::optional<Backend> BackendFromUrl(std::string_view url);

}  // namespace recourse
