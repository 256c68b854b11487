// OpenAPI Overlay 1.0: changes of a description that stand in a file of their own.
#pragma once

#include <string>
#include <vector>

#include "policy/language/yaml_reader.h"

namespace recourse {

// Carries out the actions of `overlay` on `description`, one after the other. What it does not
// understand, and facts that find no place in the description, are errors; other actions that
// select nothing are told in `notes`.
void ApplyOverlay(const YamlNode& overlay, YamlNode& description, std::vector<std::string>& notes,
                  Problems& problems);

}  // namespace recourse
