// What a start says once everything listens: to a person at a terminal, or to who reads the log.
#pragma once

#include <string>

#include "policy/model/policy.h"
#include "proxy/config/config.h"
#include "proxy/net/loop/socket.h"

namespace recourse {

struct Listeners {
  Tcp::endpoint agents, admin, probes;
};

// For people: mode, policy, addresses as urls, and who can log in. Pure.
std::string ReadyText(const Config& config, const Policy& policy, const Listeners& listeners);

// That to a terminal on standard error, else the line "ready" of the log.
void TellReady(const Config& config, const Policy& policy, const Listeners& listeners);

}  // namespace recourse
