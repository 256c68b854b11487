// The endpoint of an MCP server: the body says what a call is. Reads take the read lane with their
// body at hand, writes the filter chain; what that answers is told as JSON-RPC.
#pragma once

#include "proxy/lanes/read_lane.h"

namespace recourse {

inline constexpr int kInvalidRequest = -32600;  // JSON-RPC 2.0 section 5.1

class McpLane final : public Lane {
 public:
  // Both outlive it.
  McpLane(ReadLane& read, Lane& write) : read_(read), write_(write) {}

  Task<bool> Run(Exchange& exchange) override;

 private:
  Task<bool> Post(Exchange& exchange);
  // Once its body is here.
  Task<bool> Execute(Exchange& exchange, BodyReservation& room, std::string body);
  Task<bool> Stream(Exchange& exchange);

  ReadLane& read_;
  Lane& write_;
};

}  // namespace recourse
