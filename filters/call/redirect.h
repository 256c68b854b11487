// What becomes of a redirect that would have a client make its write somewhere else. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/model/policy.h"

namespace recourse {

struct RedirectPlan {
  enum class Kind : std::uint8_t {
    kPass,     // it comes back by itself
    kRewrite,  // `location` brings it back here
    kRefuse,   // it leads past Recourse; `why` names the fix
  };
  Kind kind = Kind::kPass;
  std::string location{}, why{};
};

// Of a 307 or 308 (which have the method and body sent again) of `backend` to a call that came as
// if we were that backend: what it makes of an absolute `location` would go there without us.
RedirectPlan PlanRedirect(const Policy& policy, const Backend& backend, int status,
                          std::string_view location);

// Path and query by which an agent calls what `location` names, in an answer of `backend` to a
// request of `path`; nullopt: it is elsewhere, or cannot be told.
std::optional<std::string> PathOnBackend(const Policy& policy, const Backend& backend,
                                         std::string_view path, std::string_view location);

}  // namespace recourse
