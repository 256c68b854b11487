// Hosts and ports as a policy writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace recourse {

// In lower case: letters, digits, '-', '.' and '_', without a dot at either end.
bool IsHostName(std::string_view host);

struct Authority {
  std::string host;        // lower case, without brackets
  std::uint16_t port = 0;  // 0: none given
};

// "host[:port]" with a name, an IPv4 address in its usual form, or an IPv6 address in brackets.
std::optional<Authority> ParseAuthority(std::string_view text);

// As it stands before a port: an IPv6 address in brackets.
std::string Bracketed(const std::string& host);

}  // namespace recourse
