// A result of one era of MCP as clients of the other one read it. Pure.
#pragma once

#include <string>

#include "filters/mcp/mcp_request.h"

namespace recourse {

// `message` of a FinalMessage for a client of `era`. The modern protocol demands a `resultType`,
// the older one knows none, and has an object for `structuredContent`. All else stays byte for
// byte.
std::string InFormOf(McpEra era, std::string message);

}  // namespace recourse
