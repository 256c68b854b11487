#include "proxy/net/loop/socket.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <cstddef>
#include <limits>

namespace recourse {
namespace {

constexpr int kBacklog = 4096;

// What Linux tells since 4.1; the C library's is older.
struct TcpInfo {
  tcp_info old{};
  std::uint64_t pacing_rate = 0, pacing_rate_max = 0;
  std::uint64_t bytes_acknowledged = 0;
};
static_assert(offsetof(TcpInfo, bytes_acknowledged) == 120);

using AskForName = int (*)(int, sockaddr*, socklen_t*);

std::optional<Tcp::endpoint> Name(int socket, AskForName ask) {
  Tcp::endpoint endpoint;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  if (ask(socket, endpoint.data(), &size) != 0) return std::nullopt;
  endpoint.resize(size);
  return endpoint;
}

void OrThrow(bool done, const char* what) {
  if (!done) throw boost::system::system_error(errno, boost::system::system_category(), what);
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Socket Socket::For(const Tcp& protocol) {
  return Socket(::socket(protocol.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Socket Socket::BoundTo(const Tcp::endpoint& endpoint) {
  Socket socket = For(endpoint.protocol());
  OrThrow(socket.is_open(), "socket");
  const int on = 1;
  OrThrow(::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
  const auto size = static_cast<socklen_t>(endpoint.size());
  OrThrow(::bind(socket.fd(), endpoint.data(), size) == 0, "bind");
  return socket;
}

Socket Socket::ListeningAt(const Tcp::endpoint& endpoint) {
  Socket socket = BoundTo(endpoint);
  OrThrow(::listen(socket.fd(), kBacklog) == 0, "listen");
  return socket;
}

void SendAtOnce(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void SetAtClose(int socket, AtClose what) {
  const linger linger{.l_onoff = what == AtClose::kDrops ? 1 : 0, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
}

void EndUnacknowledgedAfter(int socket, std::chrono::milliseconds most) {
  using Count = std::chrono::milliseconds::rep;
  // 0 would be the system's default.
  const auto most_ms =
      static_cast<int>(std::clamp(most.count(), Count{1}, Count{std::numeric_limits<int>::max()}));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

void Reset(int socket) {
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  ::connect(socket, &nowhere, sizeof nowhere);
}

Delivered DeliveredBy(int socket) {
  TcpInfo info;
  socklen_t size = sizeof info;
  ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
  int missing = 0;
  ::ioctl(socket, SIOCOUTQ, &missing);
  return {info.bytes_acknowledged, static_cast<std::size_t>(missing)};
}

std::optional<Tcp::endpoint> LocalEnd(int socket) { return Name(socket, &::getsockname); }
std::optional<Tcp::endpoint> PeerEnd(int socket) { return Name(socket, &::getpeername); }

}  // namespace recourse
