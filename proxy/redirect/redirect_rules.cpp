#include "proxy/redirect/redirect_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace recourse {
namespace {

constexpr std::uint16_t kDnsPort = 53;
constexpr std::uint16_t kDnsOverTlsPort = 853;

std::string ListOf(const std::set<std::uint16_t>& ports) {
  return fmt::format("{}", fmt::join(ports, ", "));
}

// What neither chain touches, whatever the port.
std::string Exclusions(const RedirectRules& rules) {
  // Loopback is also every address of this pod itself: the way of its probes, and of Recourse's
  // own listeners.
  std::string text = fmt::format(
      "    meta skuid {} return\n"
      "    oifname \"lo\" return\n",
      rules.uid);
  for (const std::string& network : rules.exclude_networks) {
    const bool is_v6 = network.find(':') != std::string::npos;
    text += fmt::format("    {} daddr {} return\n", is_v6 ? "ip6" : "ip", network);
  }
  return text;
}

// DNS is left alone over TCP too: with `every port` nobody has asked for it.
std::set<std::uint16_t> ExcludedPorts(const RedirectRules& rules) {
  std::set<std::uint16_t> ports = rules.exclude_ports;
  if (rules.ports.empty()) ports.insert({kDnsPort, kDnsOverTlsPort});
  return ports;
}

bool Redirects(const RedirectRules& rules, std::uint16_t port) {
  return (rules.ports.empty() || rules.ports.contains(port)) && !rules.exclude_ports.contains(port);
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The table itself.
std::string TableOf(const RedirectRules& rules) {
  const std::string exclusions = Exclusions(rules);
  std::string text;
  // Before the chains of service meshes (-100): what one chain has redirected no other sees, and
  // what Recourse sends is left to them.
  text +=
      "table inet recourse {\n  chain agents {\n"
      "    type nat hook output priority -110; policy accept;\n" +
      exclusions;
  if (const auto excluded = ExcludedPorts(rules); !excluded.empty()) {
    text += fmt::format("    tcp dport {{ {} }} return\n", ListOf(excluded));
  }
  text += rules.ports.empty() ? "    meta l4proto tcp"
                              : fmt::format("    tcp dport {{ {} }}", ListOf(rules.ports));
  text += fmt::format(" redirect to :{}\n  }}\n", rules.port);
  // HTTP/3 would go round: without QUIC its clients fall back to TCP.
  if (Redirects(rules, 443)) {
    text += "  chain quic {\n    type filter hook output priority 0; policy accept;\n" +
            exclusions + "    udp dport 443 drop\n  }\n";
  }
  return text + "}\n";
}

}  // namespace

std::string RenderRedirectRemoval() {
  // The first line makes the second one good where there is no table yet.
  return "table inet recourse\n"
         "delete table inet recourse\n";
}

std::string RenderRedirectRules(const RedirectRules& rules) {
  return RenderRedirectRemoval() + TableOf(rules);
}

std::string RenderNewRedirectRules(const RedirectRules& rules) {
  return "create table inet recourse\n" + TableOf(rules);
}

std::optional<std::uint16_t> SomeRedirectedPort(const RedirectRules& rules) {
  const std::set<std::uint16_t> excluded = ExcludedPorts(rules);
  for (const std::uint16_t port : rules.ports) {
    if (!excluded.contains(port)) return port;
  }
  for (std::uint16_t port = 80; rules.ports.empty() && port != 0; ++port) {
    if (!excluded.contains(port)) return port;
  }
  return std::nullopt;
}

std::string WordsForRedirected(const RedirectRules& rules) {
  std::string words = rules.ports.empty() ? "every TCP port" : "TCP ports " + ListOf(rules.ports);
  if (const auto excluded = ExcludedPorts(rules); !excluded.empty()) {
    words += " but " + ListOf(excluded);
  }
  return words;
}

std::string_view AdviceForNft(std::string_view said) {
  if (Has(said, "Operation not permitted") || Has(said, "must be root")) {
    return "this needs the capability NET_ADMIN in the pod's network: run it in an init container "
           "as root with `capabilities: { add: [ NET_ADMIN ] }`";
  }
  if (Has(said, "Protocol not supported") || Has(said, "Operation not supported") ||
      Has(said, "Could not process rule: No such file or directory")) {
    return "the node's kernel lacks nftables with nat (modules nf_tables, nft_chain_nat, "
           "nft_redir): load them on the node, or name Recourse in the agent's tool URLs instead";
  }
  return "try the rules of `recourse redirect show` by hand";
}

}  // namespace recourse
