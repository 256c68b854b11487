// Texts that look like credentials have no place in a policy.
#pragma once

#include <string_view>

#include "policy/language/yaml_reader.h"

namespace recourse {

// Whether one of those, or a url with a password, is in the text, which is then not to be shown.
bool HoldsSecret(std::string_view text);

// Adds an error for every line of `text`, comments included, that holds what looks like a key, a
// token or a private key of a well-known kind. The message never repeats it.
void RefuseSecrets(std::size_t file, std::string_view text, Problems& problems);

}  // namespace recourse
