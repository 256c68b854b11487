// The lanes of the process. They keep nothing, so that all threads share them.
#pragma once

#include "proxy/lanes/connect_lane.h"
#include "proxy/lanes/graphql_lane.h"
#include "proxy/lanes/mcp_lane.h"
#include "proxy/lanes/observe_lane.h"
#include "proxy/lanes/poll_lane.h"
#include "proxy/lanes/read_lane.h"
#include "proxy/lanes/write_lane.h"

namespace recourse {

class AllLanes {
 public:
  Lanes lanes() { return {read_, write_, mcp_, graphql_, observe_, poll_, tunnel_}; }

 private:
  ReadLane read_;
  WriteLane write_;
  McpLane mcp_{read_, write_};
  GraphqlLane graphql_{read_, write_};
  ObserveLane observe_{read_};
  PollLane poll_;
  ConnectLane tunnel_;
};

}  // namespace recourse
