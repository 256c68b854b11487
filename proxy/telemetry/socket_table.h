// TCP connections of this network namespace, as /proc/net/tcp and /proc/net/tcp6 tell them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/net/loop/socket.h"

namespace recourse {

struct TcpSocket {
  Tcp::endpoint local, remote;
  std::uint32_t user = 0;
  std::uint64_t inode = 0;
};

// Those that a process has, and with a peer, at most `most`; what cannot be read is left out. An
// IPv4 address within IPv6 is one of IPv4.
std::vector<TcpSocket> ReadSocketTable(std::string_view text, std::size_t most);

struct BackendAddress {
  Tcp::endpoint at;
  std::string backend;
};

// How connections come that are fine.
struct Guarded {
  std::uint32_t user = 0;           // of Recourse itself
  std::uint16_t redirect_port = 0;  // where the kernel leads connections; 0: none
};

struct Unguarded {
  std::string backend;
  std::uint64_t inode = 0;
  std::uint32_t user = 0;
};

// Connections to backends that are neither Recourse's nor led to it.
std::vector<Unguarded> FindUnguarded(const std::vector<TcpSocket>& sockets,
                                     const std::vector<BackendAddress>& backends,
                                     const Guarded& guarded);

}  // namespace recourse
