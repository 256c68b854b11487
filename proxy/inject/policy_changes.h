// What one text of a policy says otherwise than another, by the names of its parts. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// "tools.orders.create changed", "backends.mail is new", "flows.checkout is gone". Both texts are
// ones that can be read as YAML; order and comments do not count.
std::vector<std::string> PolicyChanges(std::string_view before, std::string_view after);

}  // namespace recourse
