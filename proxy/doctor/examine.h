// Looks at a set-up from where an agent and an operator stand. Blocking; changes nothing but by a
// KeyTrial.
#pragma once

#include <string>
#include <vector>

#include "proxy/cli/api_client.h"
#include "proxy/doctor/check.h"
#include "proxy/doctor/key_trial.h"

namespace recourse {

struct Setup {
  std::string policy, data;  // `data` empty: the disk is not looked at
  std::string listen, probes, operators;
  std::uint64_t connections = 0;  // of --connections-max
  KeyTrial key;
};

// Everything, in the order in which a call meets it.
std::vector<Check> Examine(const Setup& setup, const ApiClient& client);

}  // namespace recourse
