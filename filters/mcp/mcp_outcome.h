// What an MCP server's answer proves about a call's effect. Pure.
#pragma once

#include <optional>

#include "filters/verdict.h"

namespace recourse {

// nullopt: it is to be judged as an HTTP answer: it is no answer to a call of an MCP server, or its
// message is a result, or it tells nothing.
std::optional<Verdict> OfMcpAnswer(const Tool& tool, const Answer& answer,
                                   const CallValues& values);

}  // namespace recourse
