// Whether a server can be reached at all: for commands, which may wait.
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/net/loop/socket.h"

namespace recourse {

// What a name leads to, one address at least; the error is a line for people. Blocking.
std::expected<std::vector<boost::asio::ip::address>, std::string> LookUp(const std::string& host);

// Connects, and goes. The error is what the system says. Blocking, for `patience` at most.
std::expected<void, std::string> Reach(const Tcp::endpoint& endpoint, Millis patience);

}  // namespace recourse
