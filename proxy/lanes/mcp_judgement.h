// What a message to an MCP server is: by its body, the policy, and what the server has said of its
// tools.
#pragma once

#include <optional>
#include <vector>

#include "filters/mcp/mcp_decision.h"
#include "filters/mcp/mcp_request.h"
#include "proxy/exchange/served_request.h"

namespace recourse {

McpDecision DecideMcpCall(const ServedRequest& request, const Backend& backend,
                          const std::vector<McpRequest>& messages);

// Why the server must refuse it: a write may be answered from the log, which must not say yes to
// that.
std::optional<McpRefusal> RefusalOfCall(const McpDecision& decision, const Headers& headers,
                                        const McpRequest& message);

// What the log says of it.
void NoteMcp(ServedRequest& request, const RouteMatch& match, const McpRequest& message);

// Observe mode: the body of what is observed has passed.
void JudgeObservedMcp(ServedRequest& request);

}  // namespace recourse
