// The calls that a process in observe mode has kept.
#pragma once

#include <expected>
#include <ostream>
#include <string>
#include <vector>

#include "policy/suggest/sighting.h"
#include "proxy/base/clock.h"

namespace recourse {

struct KeptFrom {
  std::string data;
  std::string install_secret;  // file; empty: DATA/install.secret
  Millis since{};              // before now
};

struct KeptCalls {
  std::string secret;          // that the keys of the traffic are made of
  std::vector<Sighting> seen;  // by time; one at least
};

// Fails with a line for people; says on `err` what cannot be read.
std::expected<KeptCalls, std::string> ReadKeptCalls(const KeptFrom& from, std::ostream& err);

}  // namespace recourse
