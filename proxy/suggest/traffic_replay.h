// What a policy would have made of the calls that observe mode has seen, for people.
#pragma once

#include <ostream>
#include <string>

#include "proxy/base/clock.h"

namespace recourse {

struct TrafficReplayOptions {
  std::string data;            // of the process that observes
  std::string install_secret;  // file; empty: DATA/install.secret
  std::string policy;          // file or directory
  Millis since{};
};

// Gives 0; 1: two calls of different answers would be one; 2: there is nothing to read; 3: the
// policy is invalid.
int ReplayTraffic(const TrafficReplayOptions& options, std::ostream& out, std::ostream& err);

}  // namespace recourse
