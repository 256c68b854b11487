// What a message to an MCP server is: by its body, the policy, and what the server has said of its
// tools.
#pragma once

#include <expected>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "filters/call/call_values.h"
#include "filters/mcp/mcp_decision.h"
#include "filters/mcp/mcp_request.h"
#include "proxy/base/task.h"
#include "proxy/exchange/served_request.h"
#include "proxy/mcp/calls_in_flight.h"

namespace recourse {

// The body of a POST, read.
struct ReadPost {
  std::expected<std::vector<McpRequest>, McpRefusal> messages;
  std::shared_ptr<const CallBody>
      reading;                   // of a single one that may be a write; has its arguments
  std::optional<Json> canceled;  // of a cancellation: the id of the call, null for none
};
// Refuses a batch that cancels a call, too. Pure.
ReadPost ReadMcpPost(const Headers& headers, std::string_view body);

McpDecision DecideMcpCall(const ServedRequest& request, const ToolCatalog& tools,
                          const Backend& backend, const std::vector<McpRequest>& messages);

// Why the server must refuse it: a write may be answered from the log, which must not say yes to
// that.
std::optional<McpRefusal> RefusalOfCall(const ServedRequest& request, const ToolCatalog& tools,
                                        const McpDecision& decision, const Headers& headers,
                                        const McpRequest& message, const Json& arguments);

// A cancellation: the client of the write that it names is gone. True: the server may hear of it,
// as it is of a read. A write is never stopped half-way, as its outcome would be unknown; of what
// is not at work here, another process may work on, or the server alone.
bool TakeCancel(const ServedRequest& request, CallsInFlight& calls, const Json& id,
                const std::string& session, const Headers& headers);

// What the log says of it.
void NoteMcp(ServedRequest& request, const RouteMatch& match, const McpRequest& message);

// Observe mode: the body of what is observed has passed.
Task<void> JudgeObservedMcp(ServedRequest& request, const ToolCatalog& tools);

}  // namespace recourse
