// What enforcing would have done with calls that were only observed, counted by tool. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace recourse {

// Writes of one tool.
struct ObservedCounts {
  std::size_t seen = 0;
  std::size_t sent = 0;
  std::size_t replayed = 0;  // answered with the first one's answer
  std::size_t joined = 0;    // kept waiting for the first one, which still ran
  // Not sent, as nobody knew whether the first one had its effect: settled, sent again under the
  // backend's key, or 409.
  std::size_t in_doubt = 0;
  std::size_t refused = 0;
  std::size_t asks = 0;    // a human
  std::size_t untold = 0;  // what was kept of it does not tell
};

// A line for each tool below titles; empty when there is none.
std::string CountsTable(const std::map<std::string, ObservedCounts>& tools);

}  // namespace recourse
