#include "policy/model/tunnel_decision.h"

#include <algorithm>

#include "policy/model/route_table.h"

namespace recourse {
namespace {

using Act = TunnelDecision::Act;

constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;
const std::string kAmbiguousTls =
    "what the client sent begins like TLS and cannot be read in one way";

// As agents write it in their urls, so that a backend whose url has no port is found by both
// schemes' ports.
const Backend* BackendOf(const Policy& policy, const Authority& target) {
  const std::uint16_t usual = target.port == kHttpsPort ? kHttpsPort : kHttpPort;
  return policy.routes->FindBackend(AuthorityText(target, usual), usual);
}

bool IsLoopbackName(std::string_view host) {
  if (host == "localhost") return true;
  const auto literal = ParseIpAddress(host);
  return literal && ClassOf(*literal) == AddressClass::kLoopback;
}

bool MayBeOneHost(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (a == b || (IsLoopbackName(a) && IsLoopbackName(b))) return true;
  return b.starts_with(a) && b[a.size()] == '.' && !ParseIpAddress(b);
}

// How the backend can be called instead.
std::string PlainUrl(const Policy& policy, const Backend& backend, const Authority& target) {
  const std::string bare = Bracketed(target.host);
  if (policy.routes->FindBackend(bare, kHttpPort) == &backend) return "http://" + bare;
  return "http://" + bare + ':' + std::to_string(target.port);
}

std::string WhyNotTls(const Policy& policy, const Backend& backend, const Authority& target) {
  std::string reason = "backend '" + backend.name +
                       "' is called through Recourse, which does not look into TLS; call " +
                       PlainUrl(policy, backend, target) + " through the proxy instead";
  return backend.scheme == "https"
             ? reason + ": Recourse speaks TLS to the backend; or say `intercept: true` of it"
             : reason;
}

// Of a backend with `intercept`. TLS that names nobody can only mean the target.
std::string WhyNotIntercepted(const Authority& target, std::string_view server_name) {
  if (server_name.empty() || server_name == target.host) return {};
  return "a tunnel to '" + target.host + "' was asked for, and TLS in it asks for '" +
         std::string(server_name) + "'";
}

// What only HTTP, and TLS where it is intercepted, can be done with.
std::string WhyNotServed(const Policy& policy, const Backend& backend, const Authority& target,
                         const std::optional<Heard>& heard) {
  if (!heard) {
    return target.port == kHttpsPort && !policy.routes->Intercepts(backend)
               ? WhyNotTls(policy, backend, target)
               : std::string();
  }
  switch (heard->opening) {
    case ClientOpening::kHttp:
      return {};
    case ClientOpening::kTls:
      return policy.routes->Intercepts(backend) ? WhyNotIntercepted(target, heard->server_name)
                                                : WhyNotTls(policy, backend, target);
    case ClientOpening::kBadTls:
      return policy.routes->Intercepts(backend) ? kAmbiguousTls
                                                : WhyNotTls(policy, backend, target);
    case ClientOpening::kHttp2:
      return "HTTP/2 is not served; use HTTP/1.1";
    case ClientOpening::kOther:
      break;
  }
  return "what the client sent is not HTTP, and nothing else leads to backend '" + backend.name +
         "'";
}

std::string WhyNotTunnelled(const Policy& policy, const Authority& target,
                            const std::optional<Heard>& heard) {
  const std::string named = Bracketed(target.host) + ':' + std::to_string(target.port);
  const TunnelRule* const rule = policy.tunnels.Find(target.host, target.port);
  const Backend* const owner = BackendOfHost(policy, target.host);
  if (rule == nullptr && owner == nullptr) {
    return "no backend of the policy has the authority '" + named +
           "', and its `tunnels` do not list it; make it a backend to have its writes kept, or add "
           "\"" +
           named + "\" to `tunnels` to let agents reach it unseen";
  }
  if (rule == nullptr || (rule->is_wildcard && owner != nullptr)) {
    return "'" + target.host + "' is, or may be, the host of backend '" + owner->name +
           "', so a tunnel to its port " + std::to_string(target.port) +
           " needs a line of its own in `tunnels`: \"" + named + "\"";
  }
  if (heard && heard->opening == ClientOpening::kBadTls) {
    return kAmbiguousTls;
  }
  if (heard && heard->opening == ClientOpening::kTls && !heard->server_name.empty() &&
      heard->server_name != target.host) {
    return "a tunnel to '" + target.host + "' was asked for, and TLS in it asks for '" +
           std::string(heard->server_name) + "'";
  }
  return {};
}

}  // namespace

std::vector<const Backend*> PossibleAliases(const Policy& policy, const Authority& target) {
  std::vector<const Backend*> backends;
  const TunnelRule* const rule = policy.tunnels.Find(target.host, target.port);
  if (rule == nullptr || !rule->is_wildcard || policy.mode == Mode::kObserve) return backends;
  for (const Backend& backend : policy.backends) {
    const auto is_same = [&](const Backend* other) { return other->host == backend.host; };
    if (backend.port != target.port || std::ranges::any_of(backends, is_same)) continue;
    backends.push_back(&backend);
  }
  return backends;
}

std::string WhyNoAlias(const Authority& target, const Backend& backend) {
  return "'" + target.host + "' leads to the address of backend '" + backend.name +
         "'; call that through Recourse, or give this name a line of its own in `tunnels`: \"" +
         AuthorityText(target, 0) + "\"";
}

std::string AuthorityText(const Authority& target, std::uint16_t scheme_port) {
  std::string text = Bracketed(target.host);
  if (target.port != scheme_port) text += ':' + std::to_string(target.port);
  return text;
}

const Backend* BackendOfHost(const Policy& policy, std::string_view host) {
  const auto names_host = [&](const std::string& entry) {
    const auto authority = ParseAuthority(entry);
    return authority && MayBeOneHost(authority->host, host);
  };
  const auto found =
      std::find_if(policy.backends.begin(), policy.backends.end(), [&](const Backend& backend) {
        return MayBeOneHost(backend.host, host) ||
               std::any_of(backend.hosts.begin(), backend.hosts.end(), names_host);
      });
  return found == policy.backends.end() ? nullptr : &*found;
}

TunnelDecision DecideTunnel(const Policy& policy, const Authority& target,
                            const std::optional<Heard>& heard) {
  TunnelDecision decision;
  decision.backend = BackendOf(policy, target);
  decision.reason = decision.backend != nullptr
                        ? WhyNotServed(policy, *decision.backend, target, heard)
                        : WhyNotTunnelled(policy, target, heard);
  if (decision.reason.empty()) {
    decision.act = decision.backend != nullptr ? Act::kServe : Act::kTunnel;
  } else if (policy.mode == Mode::kObserve) {
    decision.act = Act::kTunnel;
  }
  return decision;
}

Backend TunnelEnd(const Policy& policy, const Authority& target, const TunnelDecision& decision) {
  Backend end;
  end.name = "tunnel";
  end.scheme = "http";  // TLS in it is between the agent and the other end
  end.host = target.host;
  end.port = target.port;
  end.authority = AuthorityText(target, 0);
  if (decision.backend != nullptr) {
    end.addresses = decision.backend->addresses;
    end.connect_timeout = decision.backend->connect_timeout;
    return end;
  }
  const TunnelRule* const rule = policy.tunnels.Find(target.host, target.port);
  if (rule == nullptr || rule->is_wildcard) return end;
  const auto literal = ParseIpAddress(target.host);
  if (target.host == "localhost") end.addresses.classes.push_back(AddressClass::kLoopback);
  if (literal) end.addresses.ranges.push_back({*literal, 128});
  return end;
}

}  // namespace recourse
