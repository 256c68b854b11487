// The word `tunnels`: where agents may have a tunnel that nobody looks into.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

struct TunnelRule {
  std::string text;  // as the policy says it
  std::string host;  // lower case, without brackets; of a wildcard what follows its first label
  std::uint16_t port = 0;
  bool is_wildcard = false;  // "*.x.example:443": one label before ".x.example"

  // `asked` in lower case, without brackets.
  bool Covers(std::string_view asked, std::uint16_t asked_port) const;
};

struct TunnelRules {
  std::vector<TunnelRule> rules;

  // The rule for that host and port; one that names it goes before a wildcard. nullptr: none.
  const TunnelRule* Find(std::string_view host, std::uint16_t port) const;
};

}  // namespace recourse
