// What the kernel knows of a redirected connection.
#pragma once

#include <cstdint>
#include <optional>

#include "proxy/net/loop/connection.h"

namespace recourse {

// Where the client of an accepted connection wanted to, before a rule of the kernel led it here.
// nullopt: no rule that is remembered did. May also be our own end, when none did.
std::optional<Tcp::endpoint> OriginalDestination(int accepted);

// The user that a TCP socket of this network namespace belongs to: the one connected from `from` to
// `to`, as it sees itself, or the one that listens at `from`, with a `to` of zeros. nullopt: there
// is none, or the kernel does not tell (it lacks tcp_diag). Asks the kernel and waits for nobody.
std::optional<std::uint32_t> OwnerOfSocket(const Tcp::endpoint& from, const Tcp::endpoint& to);

}  // namespace recourse
