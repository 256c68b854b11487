// What becomes of a message of an MCP client, by policy. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "filters/mcp/mcp_request.h"
#include "filters/mcp/tool_catalog.h"
#include "policy/model/policy.h"

namespace recourse {

struct McpDecision {
  const Tool* tool = nullptr;  // of the policy; nullptr: none names it
  Effect effect = Effect::kWrite;
  // Sent once at most although it is a read: a notification, or a response to the server.
  bool passes_once = false;
  UnlistedRule unlisted = UnlistedRule::kGuard;  // of a write without a tool
  bool is_denied = false;                        // by that rule, or by that for reads
  // Why it must not be passed on: its name is another's to some server. Empty: it may be.
  std::string objection;
};

// `requests` are of one body. `facts`: what the server has said about the tool that is called.
McpDecision DecideMcp(const Policy& policy, const Backend& backend,
                      const std::vector<McpRequest>& requests,
                      const std::optional<ToolFacts>& facts);

// The method as log and metrics have it: one of the protocol's, or "other"; a response is
// "response". Lives for ever.
std::string_view McpMethodLabel(std::string_view method);

}  // namespace recourse
