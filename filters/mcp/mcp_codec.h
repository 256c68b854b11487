// MCP, as those who send calls and keep their answers need it.
#pragma once

#include <string_view>

#include "filters/codec.h"
#include "filters/mcp/mcp_request.h"

namespace recourse {

const Codec& McpCodec();

// A message that is read already as the call that it is; `body` is its bytes. Takes the arguments
// out of it.
CallBody TakeReading(McpRequest& message, std::string_view body);

}  // namespace recourse
