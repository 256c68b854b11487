// What a message to an MCP server was, for `recourse policy suggest`: a call of a tool, with what
// came of it, or a list of tools. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proxy/base/json/json.h"
#include "proxy/traffic/seen_call.h"

namespace recourse {

struct SeenMcp {
  std::string tool;  // empty: it is a list
  Json arguments;
  int status = 0;              // as an HTTP API would have answered; 0: nobody knows
  std::optional<Json> output;  // of a success
  std::string trace_id, intent;
  std::vector<SeenHint> hints;
};

// nullopt: it is neither, or its answer is not final.
std::optional<SeenMcp> ReadSeenMcp(const SeenCall& call);

}  // namespace recourse
