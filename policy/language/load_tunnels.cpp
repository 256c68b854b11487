// The word `tunnels`.
#include <algorithm>

#include "policy/language/policy_builder.h"
#include "policy/model/route_table.h"
#include "policy/model/tunnel_decision.h"
#include "policy/uri/authority.h"

namespace recourse {
namespace {

constexpr std::string_view kTunnelHelp =
    "accepted: host:port, or *.domain:port for hosts with one more label; the port has to be given";

std::optional<TunnelRule> ParseRule(std::string_view text) {
  TunnelRule rule;
  rule.text = text;
  rule.is_wildcard = text.starts_with("*.");
  const auto authority = ParseAuthority(rule.is_wildcard ? text.substr(2) : text);
  if (!authority || authority->port == 0) return std::nullopt;
  // "*.0.0.1" would be a part of an address.
  if (rule.is_wildcard && ParseIpAddress(authority->host)) return std::nullopt;
  rule.host = authority->host;
  rule.port = authority->port;
  return rule;
}

// An address that the policy itself names may be private or a loopback one, but nothing worse.
std::string AddressProblem(const TunnelRule& rule) {
  const auto literal = ParseIpAddress(rule.host);
  if (!literal) return {};
  const AddressClass kind = ClassOf(*literal);
  if (kind == AddressClass::kPublic || kind == AddressClass::kPrivate ||
      kind == AddressClass::kLoopback) {
    return {};
  }
  return rule.host + " is " + std::string(NameOf(kind)) + ", to which no tunnel is made";
}

}  // namespace

bool TunnelRule::Covers(std::string_view asked, std::uint16_t asked_port) const {
  if (asked_port != port) return false;
  if (!is_wildcard) return asked == host;
  const auto dot = asked.find('.');
  return dot != std::string_view::npos && dot > 0 && asked.substr(dot + 1) == host;
}

const TunnelRule* TunnelRules::Find(std::string_view host, std::uint16_t port) const {
  const TunnelRule* found = nullptr;
  for (const TunnelRule& rule : rules) {
    if (!rule.Covers(host, port)) continue;
    if (!rule.is_wildcard) return &rule;
    found = &rule;
  }
  return found;
}

void LoadTunnels(MapReader& root, PolicyBuilder& draft) {
  for (const LocatedText& entry : root.Texts("tunnels")) {
    auto rule = ParseRule(entry.text);
    const std::string problem = rule ? AddressProblem(*rule) : std::string(kTunnelHelp);
    if (!problem.empty()) {
      draft.problems.Error(entry.place, entry.key, problem);
      continue;
    }
    draft.policy.tunnels.rules.push_back(std::move(*rule));
    draft.tunnel_places.push_back(entry.place);
  }
  if (draft.policy.tunnels.rules.size() > limits::kTunnelRulesMax) {
    draft.problems.Error(root.PlaceOf("tunnels"), "tunnels", "more than 1000 of them");
  }
}

void CheckTunnels(PolicyBuilder& draft, const RouteTable& routes) {
  for (std::size_t i = 0; i < draft.policy.tunnels.rules.size(); ++i) {
    const TunnelRule& rule = draft.policy.tunnels.rules[i];
    if (rule.is_wildcard) {
      if (rule.host.find('.') != std::string::npos) continue;
      draft.problems.Warn(draft.tunnel_places[i], "tunnels",
                          rule.text + " lets agents reach every host under '" + rule.host +
                              "' unseen; name the hosts, or a longer domain");
      continue;
    }
    const Backend* const owner = BackendOfHost(draft.policy, rule.host);
    if (owner == nullptr) continue;
    const Authority target{rule.host, rule.port};
    const bool is_web = rule.port == 80 || rule.port == 443;
    if (is_web || routes.FindBackend(AuthorityText(target, 0), rule.port) != nullptr) {
      draft.problems.Error(draft.tunnel_places[i], "tunnels",
                           rule.text + " is where backend " + owner->name +
                               " is called: in a tunnel its writes would be neither kept, repeated "
                               "safely nor undone; drop it, and call the backend by http");
      continue;
    }
    draft.problems.Warn(draft.tunnel_places[i], "tunnels",
                        rule.text + " is on the host of backend " + owner->name +
                            ": what agents do there is neither kept nor undone");
  }
}

}  // namespace recourse
