// How many writes nothing joins with others, as the admin port tells it and people read it.
#pragma once

#include <cstdint>
#include <string>

#include "proxy/base/json/json_shape.h"

namespace recourse {

// Writes since the process began, and those of them whose flow nothing names.
struct FlowCounts {
  std::uint64_t writes = 0, without_trace = 0;
};

// {"writes":7,"without_trace":3}
std::string ToJson(const FlowCounts& counts);
JsonShape FlowCountsShape();

// What the member `flow_counts` of an answer says, for people; empty when every write has a flow.
std::string FlowCountsText(const Json& answer);

}  // namespace recourse
