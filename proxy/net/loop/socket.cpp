#include "proxy/net/loop/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <cerrno>

namespace recourse {
namespace {

constexpr int kBacklog = 4096;

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

std::optional<Tcp::endpoint> LocalEnd(int socket) { return Name(socket, &::getsockname); }
std::optional<Tcp::endpoint> PeerEnd(int socket) { return Name(socket, &::getpeername); }

}  // namespace recourse
