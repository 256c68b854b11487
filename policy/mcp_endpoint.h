// Which paths of an MCP server are its endpoint, where the body alone says what a call is. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "policy/policy.h"

namespace recourse {

enum class McpPath : std::uint8_t {
  kExact,      // the endpoint, written as the backend's url has it
  kAmbiguous,  // not that, but the server may take it for the endpoint: it must not be passed on
  kOther,      // RouteTable::Match decides, and refuses what has no canonical form
};

// `path` is a target without query; `backend` has `protocol: mcp`. Readings as RouteTable::Match
// knows them: other case or escapes, without or with the trailing slash, dots or spaces at the end
// of segments, an extension. No allocation for the endpoint itself.
McpPath McpPathOf(const Backend& backend, std::string_view path);

}  // namespace recourse
