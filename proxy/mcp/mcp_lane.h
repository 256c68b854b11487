// The endpoint of an MCP server: the body says what a call is. Reads take the read lane with their
// body at hand, writes the filter chain; what that answers is told as JSON-RPC.
#pragma once

#include <string>
#include <vector>

#include "filters/mcp/mcp_request.h"
#include "proxy/lanes/read_lane.h"
#include "proxy/mcp/mcp_state.h"

namespace recourse {

class BodyReservation;

inline constexpr int kInvalidRequest = -32600;  // JSON-RPC 2.0 section 5.1

class McpLane final : public EndpointLane {
 public:
  // All outlive it.
  McpLane(ReadLane& read, Lane& write, McpState& state)
      : read_(read), write_(write), state_(state) {}

  Task<bool> Run(Exchange& exchange) override;
  bool MayBeCall(const Head& head, std::string_view) const override {
    return head.method == "POST";
  }
  void Tap(ServedRequest& request) const override;
  Task<void> JudgeObserved(ServedRequest& request) override;

 private:
  Task<bool> Post(Exchange& exchange);
  // Once its body is here. `client`: that of the exchange.
  Task<bool> Execute(Exchange& exchange, CallClient& client, BodyReservation& room,
                     std::string body);
  Task<bool> Stream(Exchange& exchange);
  void NoteIds(const ServedRequest& request, const std::string& session,
               const std::vector<McpRequest>& messages);

  ReadLane& read_;
  Lane& write_;
  McpState& state_;
};

}  // namespace recourse
