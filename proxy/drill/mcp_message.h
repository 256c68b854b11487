// MCP as the drill speaks it, on both sides: the protocol of 2026-07-28, in which each call is one
// POST and each answer one JSON message. Pure.
#pragma once

#include <optional>
#include <string>

#include "policy/model/policy.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/json/json.h"

namespace recourse {

// Makes `request` the call of that tool, beside the fields that it has already.
void WriteMcpCall(const Backend& backend, const std::string& tool, const Json& arguments,
                  HttpRequest& request);

// A call of a tool as the backend got it. Two calls are one when tool and arguments are.
struct McpCall {
  std::string id;  // as it stands in the message
  std::string tool_and_arguments;
};
// nullopt: it is none.
std::optional<McpCall> ReadMcpCall(const Backend& backend, const HttpRequest& request);

// The message that answers a call: what `output` has for a body is the tool's output, a status that
// is no success refuses the call.
HttpResponse McpAnswer(const McpCall& call, const HttpResponse& output);

// What an agent is told by the answer to its call.
struct McpReply {
  bool is_done = false;
  bool is_retryable = false;
  std::string output;  // structuredContent, canonical
};
// nullopt: it is no message.
std::optional<McpReply> ReadMcpAnswer(const HttpResponse& answer);

}  // namespace recourse
