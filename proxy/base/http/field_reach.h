// How far the fields of a call come.
#pragma once

#include <cstdint>
#include <string_view>

namespace recourse {

enum class FieldReach : std::uint8_t {
  kBackend,  // read here, and passed on
  // Read here where it says who calls, or the policy names it, and not passed on: it is a proxy's
  // word on whoever is before it, and the agent is no proxy.
  kPolicy,
  kNowhere  // about one connection or its framing, or ours: no part of the call
};

// By its name alone, whatever a Connection field says. Case does not matter.
FieldReach ReachOf(std::string_view name);

}  // namespace recourse
