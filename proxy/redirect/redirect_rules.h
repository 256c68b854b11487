// The nftables rules that bring an agent's connections to the redirect listener. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace recourse {

// Nobody else in a pod has this user: not the ones of distroless images, Istio or linkerd.
inline constexpr std::uint32_t kRedirectUid = 19080;
inline constexpr std::uint16_t kRedirectPort = 19083;
// Of excluded networks: the script stays within what a pipe or a kernel message takes.
inline constexpr std::size_t kRedirectNetworksMax = 256;

struct RedirectRules {
  std::uint32_t uid = kRedirectUid;        // Recourse itself; its connections are left alone
  std::uint16_t port = kRedirectPort;      // of the redirect listener, on the loopback addresses
  std::set<std::uint16_t> ports{80, 443};  // that agents connect to; empty: all but DNS
  std::set<std::uint16_t> exclude_ports;
  std::vector<std::string> exclude_networks;  // "10.0.0.0/8", "fd00::/8", "10.1.2.3"
};

// A script for `nft -f`, which is applied wholly or not at all. It replaces the table that an
// earlier one made, so that applying it twice is applying it once.
std::string RenderRedirectRules(const RedirectRules& rules);

// The same, but it fails where there is a table already.
std::string RenderNewRedirectRules(const RedirectRules& rules);

// A script that removes the table, also where there is none.
std::string RenderRedirectRemoval();

// A port whose connections the rules lead; nullopt: there is none.
std::optional<std::uint16_t> SomeRedirectedPort(const RedirectRules& rules);

// "TCP ports 80, 443", "every TCP port but 22, 53, 853".
std::string WordsForRedirected(const RedirectRules& rules);

// What to do about a failure that `nft` described so.
std::string_view AdviceForNft(std::string_view said);

}  // namespace recourse
