// The name under which an agent asks what became of a call that waits for a human. Nothing is
// stored: it is the operation's number, signed. It tells the call's caller of that one operation
// and decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/base/crypto/hash.h"

namespace recourse {

// A path that is answered here, whatever the host, and never forwarded.
inline constexpr std::string_view kPollPath = "/.recourse/approvals/";

std::string PollToken(const std::string& ledger_secret, std::uint64_t operation,
                      std::string_view caller);
// Behind it as the path's query, which earlier versions neither give nor read: the id is of the
// operation with that key, and of no other one that has its number since the ledger went back to an
// older state.
std::string PollQuery(const std::string& ledger_secret, std::uint64_t operation, const Digest& key);
// Of an id with that query, "" or "?" and more.
bool IsPollOf(const std::string& ledger_secret, std::string_view query, std::uint64_t operation,
              const Digest& key);
// nullopt: not an id that this ledger gave to that caller.
std::optional<std::uint64_t> ReadPollId(const std::string& ledger_secret, std::string_view id,
                                        std::string_view caller);

}  // namespace recourse
