// Names that a call would have had under earlier recipes.
#pragma once

#include <optional>
#include <string>

#include "policy/model/principal.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {

// What was begun so, and is not over and answered, keeps the call from being made again, and is not
// shown to it.
struct OlderRecipe {
  Digest key{};
  Digest intent{};     // zeros: none
  Digest args_hash{};  // the call's under that recipe
  std::string tool;    // of which the call would have been
  std::string caller;  // as which it would have come
  // Whose it would have been; nullopt: the version of that recipe did not write it down.
  std::optional<Principal> principal{};
};

}  // namespace recourse
