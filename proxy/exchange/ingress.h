// How the requests of one connection come here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "policy/uri/authority.h"
#include "proxy/net/loop/socket.h"

namespace recourse {

// Where a tunnel to a backend leads.
struct TunnelTarget {
  Authority target;
  std::uint16_t scheme_port;  // that its requests need not name
};

struct Ingress {
  // Where the client of a redirected connection wanted to, and that as text.
  std::optional<Tcp::endpoint> original;
  std::string original_text;
  std::uint64_t peer = 0;  // equal for clients that share the bound of one peer
  // A tunnel to a backend, from its CONNECT to the connection's end.
  std::optional<TunnelTarget> inside;
  bool is_secure = false;       // it speaks TLS
  bool is_intercepted = false;  // with a certificate of the pod's CA
};

// Its address as a host, for what is asked for by address.
Authority AuthorityOf(const Tcp::endpoint& endpoint);

}  // namespace recourse
