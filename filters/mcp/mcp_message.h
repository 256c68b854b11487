// Messages of MCP as Recourse writes them.
#pragma once

#include <string>
#include <string_view>

#include "proxy/base/json/json_object.h"

namespace recourse {

inline constexpr std::string_view kLegacyMcp = "2025-11-25";

// A message of JSON-RPC: write(message) says what stands behind its id. `id` is JSON; empty: none.
std::string McpMessage(std::string_view id, auto write) {
  return ObjectText([&](JsonObject& message) {
    message.Text("jsonrpc", "2.0");
    if (!id.empty()) message.Raw("id", id);
    write(message);
  });
}

// Who we are, in a request of our own.
void WriteMcpClient(JsonObject& json, std::string_view name);
// The `_meta` that the newer protocol wants in the params of each request.
void WriteMcpMeta(JsonObject& params, std::string_view version,
                  std::string_view capabilities = "{}");

}  // namespace recourse
