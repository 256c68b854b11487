// The lanes of the process. They keep nothing of a request, so that all threads share them.
#pragma once

#include "proxy/graphql/graphql_lane.h"
#include "proxy/lanes/connect_lane.h"
#include "proxy/lanes/observe_lane.h"
#include "proxy/lanes/poll_lane.h"
#include "proxy/lanes/read_lane.h"
#include "proxy/lanes/write_lane.h"
#include "proxy/mcp/mcp_lane.h"
#include "proxy/mcp/mcp_state.h"

namespace recourse {

class AllLanes {
 public:
  Lanes lanes() { return {read_, write_, endpoints_, observe_, poll_, tunnel_}; }
  // What MCP servers have said about their tools.
  const ToolCatalog& tools() const { return state_.tools; }

 private:
  McpState state_;
  ReadLane read_;
  WriteLane write_;
  McpLane mcp_{read_, write_, state_};
  GraphqlLane graphql_{read_, write_};
  const EndpointLanes endpoints_{{nullptr, &mcp_, &graphql_}};
  ObserveLane observe_{read_, endpoints_};
  PollLane poll_;
  ConnectLane tunnel_;
};

}  // namespace recourse
