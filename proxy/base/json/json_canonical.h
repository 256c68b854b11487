// The canonical text of json.h, behind a text that is there already.
#pragma once

#include <string>
#include <vector>

#include "proxy/base/json/json.h"

namespace recourse {

// Appends what CanonicalJson gives.
void AppendCanonicalJson(std::string& out, const Json& value,
                         const std::vector<std::string>& ignore);

}  // namespace recourse
