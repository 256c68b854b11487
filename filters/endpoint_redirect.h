// Redirects of servers that take calls at one endpoint. Pure.
#pragma once

#include <string>
#include <string_view>

namespace recourse {

// A status that sends a client somewhere else. Followed, it would make the call at the server
// itself, around everything that is promised here.
bool IsRedirect(int status);

// What is said instead. `location` as the server has it, or empty.
std::string RedirectText(std::string_view location);

}  // namespace recourse
