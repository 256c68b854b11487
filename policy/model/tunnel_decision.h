// What becomes of a connection to HOST:PORT that an agent asks for: by CONNECT, or by what a
// redirected connection says. Pure; asked again as more is known.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "policy/uri/authority.h"
#include "proxy/base/client_opening.h"

namespace recourse {

struct TunnelDecision {
  enum class Act : std::uint8_t {
    kServe,   // HTTP requests to `backend`, each judged as any other; if TLS was heard, inside it
    kTunnel,  // bytes both ways that nobody looks into
    kRefuse,
  };
  Act act = Act::kRefuse;
  const Backend* backend = nullptr;  // whose authority the target is
  // Why it is refused and what to do about it. In observe mode such a connection is a tunnel all
  // the same; then this is why `enforce` would refuse it. Empty: it is not.
  std::string reason;
};

// What the client has sent. Unset: nothing yet, so that kServe and kTunnel are what it may become.
struct Heard {
  ClientOpening opening = ClientOpening::kOther;
  std::string_view server_name;  // kTls: in lower case; empty: it named none
};

// `target` has a port. TLS to a backend is served where its policy says `intercept`. A backend's
// authority is served and never tunnelled; every other target needs a line in `tunnels`, and a
// wildcard there never means the host of a backend.
TunnelDecision DecideTunnel(const Policy& policy, const Authority& target,
                            const std::optional<Heard>& heard);

// The target as something to connect to, under the same rules about addresses as a backend: what
// `tunnels` names itself may be a loopback address.
Backend TunnelEnd(const Policy& policy, const Authority& target, const TunnelDecision& decision);

// Backends whose host a name under a wildcard could be another name of: those at its port. Empty
// when the target is no such name.
std::vector<const Backend*> PossibleAliases(const Policy& policy, const Authority& target);
// Why there is no tunnel to a name that leads to the address of that backend.
std::string WhyNoAlias(const Authority& target, const Backend& backend);

// "host:port" as agents write it, without the port that `scheme_port` makes unnecessary.
std::string AuthorityText(const Authority& target, std::uint16_t scheme_port);

// The first backend that has this host, whatever the port, or one that may well mean the same: a
// short name and a longer one that begins with it ("orders", "orders.shop.svc"; search domains),
// and the names of the loopback. nullptr: none.
const Backend* BackendOfHost(const Policy& policy, std::string_view host);

}  // namespace recourse
