// One MCP read on its way: its body is here whole, and its answer is looked at as it passes.
#pragma once

#include <string>
#include <vector>

#include "filters/mcp/agent_answer.h"
#include "filters/mcp/relay_tap.h"
#include "proxy/exchange/held.h"

namespace recourse {

struct McpRead {
  McpRead(std::vector<McpRequest> of, std::string text, const Headers& headers, Held& room)
      : requests(std::move(of)),
        body(std::move(text)),
        side(ReadAgentSide(headers)),
        session(SessionOf(headers)),
        tap(requests),
        held(room) {}

  static std::string SessionOf(const Headers& headers) {
    const std::string* const session = FindHeader(headers, "Mcp-Session-Id");
    return session == nullptr ? std::string() : *session;
  }

  const std::vector<McpRequest> requests;  // more than one: a batch
  std::string body;
  const AgentSide side;
  const std::string session;  // empty: none
  RelayTap tap;
  Held& held;

  // It will not be sent again.
  void DropBody() {
    std::string().swap(body);
    held.Hold(HeldFor::kBody, 0);
  }
};

}  // namespace recourse
