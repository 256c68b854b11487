// What an MCP server's answer proves about a call's effect. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/call/outcome.h"

namespace recourse {

// nullopt: it is to be judged as an HTTP answer: it is no answer to a call of an MCP server, or its
// message is a result, or it tells nothing.
std::optional<Verdict> OfMcpAnswer(const Tool& tool, const Answer& answer,
                                   const CallValues& values);

// A status that sends a client somewhere else. Followed, it would make the call at the server
// itself, around everything that is promised here.
bool IsRedirect(int status);

// What is said instead. `location` as the server has it, or empty.
std::string RedirectText(std::string_view location);

}  // namespace recourse
