// Takes values out of what an MCP tool has answered. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/template/template.h"

namespace recourse {

// Puts `instead`, a JSON value, in the place of the values that `places` (answer.body# selectors)
// read from the tool's output in `message`, and from its texts that are JSON themselves. Adds the
// names of those found to `taken`. False, and `message` is of no use: a text that is not JSON may
// hold such a value.
bool RedactMcpOutput(std::string& message, const std::vector<Selector>& places,
                     std::string_view instead, std::string& taken);

}  // namespace recourse
