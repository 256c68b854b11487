// Whether a rule of the kernel leads connections to a port of this network namespace.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "proxy/base/clock.h"

namespace recourse {

// Listens at `landing` on the loopback addresses, as whoever is to get the connections will, and
// connects to `port` of addresses where nobody is (RFC 5737, RFC 3849), until that comes in here or
// `longest` is over. Nothing is sent. True: it came. Fails where the port is taken, with a line for
// people.
std::expected<bool, std::string> IsLedTo(std::uint16_t landing, std::uint16_t port, Millis longest);

}  // namespace recourse
