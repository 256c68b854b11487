// Loopback sockets for the measuring programs. They end the process on an error: a measurement
// that lost a socket is worth nothing.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace recourse::bench {

[[noreturn]] inline void Die(const char* what) {
  std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

inline sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline void SetNoDelay(int fd) {
  const int one = 1;
  if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) Die("TCP_NODELAY");
}

// Listens on 127.0.0.1; port 0 takes a free one. Prints the port on a line of its own, which is
// how the runner learns it.
inline int Listen(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) Die("socket");
  const int one = 1;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0) Die("SO_REUSEADDR");
  sockaddr_in address = Loopback(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) Die("bind");
  if (::listen(fd, 4096) != 0) Die("listen");
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) Die("getsockname");
  std::printf("%u\n", static_cast<unsigned>(ntohs(address.sin_port)));
  std::fflush(stdout);
  return fd;
}

// A connected, non-blocking socket. Connecting itself blocks, which on loopback takes no time.
inline int Connect(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) Die("socket");
  const sockaddr_in address = Loopback(port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    Die("connect");
  }
  SetNoDelay(fd);
  return fd;
}

inline void Watch(int epoll, int operation, int fd, std::uint32_t events, void* owner) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = owner;
  if (::epoll_ctl(epoll, operation, fd, &event) != 0) Die("epoll_ctl");
}

inline std::uint16_t ParsePort(const char* text) {
  char* end = nullptr;
  const unsigned long port = std::strtoul(text, &end, 10);
  if (*text == '\0' || *end != '\0' || port > 65535) {
    std::fprintf(stderr, "not a port: %s\n", text);
    std::exit(2);
  }
  return static_cast<std::uint16_t>(port);
}

}  // namespace recourse::bench
