// What an MCP client is told: whatever the chain answers as JSON-RPC, with the
// id of this very request. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "filters/call_context.h"
#include "filters/mcp/mcp_request.h"

namespace recourse {

// How the client can be answered, and what helps it.
struct ClientFacts {
  bool takes_json = true, takes_events = true;  // by its Accept
  // Whether the tool is known to have an outputSchema, or not to; clients refuse a success of such
  // a tool that is text alone.
  std::optional<bool> has_output_schema;
  bool orders_flow = false;  // the request is a message to us about its flow
  // The client is asked to bring this back in the same call; empty: it has to be told in words.
  std::string request_state;
};
ClientFacts ReadAgentSide(const Headers& headers);

// A call of which the outcome will be known later, so that a client may be asked to come back.
bool IsPending(const WriteAnswer& answer);

// The JSON-RPC message; empty: what a backend's HTTP says beside it (401, 404, ...) goes on as it
// is.
std::string AgentMessage(const McpRequest& request, const ClientFacts& side,
                         const WriteAnswer& answer);

// The whole answer. Fields that tell of the operation stay.
HttpResponse AgentAnswer(const McpRequest& request, const ClientFacts& side, WriteAnswer answer);

// What is said before the request could be read: the problem's own status, and an error of no id.
HttpResponse AgentRefusal(WriteAnswer problem);

// An error message of ours. `code` outside of what JSON-RPC and MCP reserve.
std::string AgentError(std::string_view id, int code, std::string_view message,
                       std::string_view data = {});

// A message as one server-sent event.
std::string AsEvent(std::string_view message);

}  // namespace recourse
