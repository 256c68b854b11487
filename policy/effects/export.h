// The facts of a policy in the forms in which an API's owner can ship them.
#pragma once

#include <string>
#include <string_view>

#include "policy/language/yaml_reader.h"
#include "policy/model/policy.h"

namespace recourse {

// `tree` is what `policy` was loaded from; `title` names the API. Words that only the user of
// Recourse can say are left out.

// An OpenAPI Overlay 1.0 that puts `x-effect` on a description, or stands on an empty one. `about`
// says where the facts are from.
std::string OverlayOf(std::string_view title, std::string_view about, const Policy& policy,
                      const YamlNode& tree);

// The result of an MCP server's tools/list, with `dev.recourse/effects` in each tool's `_meta`: of
// tools that are calls of an MCP server under that server's names, but for names with a star, which
// are no tools; of others under their own names, with the requests that they send.
std::string McpToolsOf(const Policy& policy, const YamlNode& tree);

}  // namespace recourse
