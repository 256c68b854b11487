// The name under which an agent asks what became of a call that waits for a human. Nothing is
// stored: it is the operation's number, signed. It tells the call's caller of that one operation
// and decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

// A path that is answered here, whatever the host, and never forwarded.
inline constexpr std::string_view kPollPath = "/.recourse/approvals/";

std::string PollToken(const std::string& ledger_secret, std::uint64_t operation,
                      std::string_view caller);
// nullopt: not an id that this ledger gave to that caller.
std::optional<std::uint64_t> ReadPollId(const std::string& ledger_secret, std::string_view id,
                                        std::string_view caller);

}  // namespace recourse
