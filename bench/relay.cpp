// The floor: copies bytes between each client and a backend connection of its own, and parses
// nothing. What a proxy costs above this is what it does; what this costs is the kernel's.
//
// usage: relay PORT BACKEND_PORT
#include <csignal>
#include <memory>
#include <string>

#include "bench/sockets.h"

namespace recourse::bench {
namespace {

constexpr int kEventsMax = 256;
constexpr std::size_t kBufferBytes = 128 * 1024;

struct Side {
  int fd = -1;
  Side* peer = nullptr;
  std::string unsent{};  // what the peer's read left to be written here
  bool closed = false;
};

class Relay {
 public:
  Relay(int listener, std::uint16_t backend_port)
      : listener_(listener),
        backend_port_(backend_port),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        buffer_(std::make_unique<char[]>(kBufferBytes)) {
    if (epoll_ < 0) Die("epoll_create1");
    Watch(epoll_, EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
  }

  [[noreturn]] void Run() {
    epoll_event events[kEventsMax];
    for (;;) {
      const int count = ::epoll_wait(epoll_, events, kEventsMax, -1);
      for (int i = 0; i < count; ++i) {
        auto* side = static_cast<Side*>(events[i].data.ptr);
        if (side == nullptr) {
          Accept();
        } else if (!side->closed) {
          Serve(*side, events[i].events);
        }
      }
    }
  }

 private:
  void Accept() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      SetNoDelay(fd);
      // Never freed: an event of this round may still name them, and the process ends soon.
      auto* client = new Side{.fd = fd};
      auto* backend = new Side{.fd = Connect(backend_port_), .peer = client};
      client->peer = backend;
      Watch(epoll_, EPOLL_CTL_ADD, client->fd, EPOLLIN | EPOLLOUT | EPOLLET, client);
      Watch(epoll_, EPOLL_CTL_ADD, backend->fd, EPOLLIN | EPOLLOUT | EPOLLET, backend);
    }
  }

  void Serve(Side& side, std::uint32_t events) {
    if ((events & EPOLLOUT) != 0 && !side.unsent.empty()) {
      side.unsent.erase(0, Send(side, side.unsent.data(), side.unsent.size()));
    }
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Drain(side);
  }

  // Edge-triggered: reads until the kernel has no more.
  void Drain(Side& side) {
    for (;;) {
      const ssize_t size = ::recv(side.fd, buffer_.get(), kBufferBytes, MSG_DONTWAIT);
      if (size == 0 || (size < 0 && errno != EAGAIN)) return Close(side);
      if (size < 0) return;
      Pass(*side.peer, static_cast<std::size_t>(size));
      if (static_cast<std::size_t>(size) < kBufferBytes) return;
    }
  }

  void Pass(Side& to, std::size_t size) {
    const std::size_t sent = to.unsent.empty() ? Send(to, buffer_.get(), size) : 0;
    to.unsent.append(buffer_.get() + sent, size - sent);
  }

  static std::size_t Send(const Side& side, const char* data, std::size_t size) {
    const ssize_t sent = ::send(side.fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }

  static void Close(Side& side) {
    for (Side* each : {&side, side.peer}) {
      if (!each->closed) ::close(each->fd);
      each->closed = true;
    }
  }

  const int listener_;
  const std::uint16_t backend_port_;
  const int epoll_;
  const std::unique_ptr<char[]> buffer_;
};

}  // namespace
}  // namespace recourse::bench

int main(int argc, char** argv) {
  using recourse::bench::ParsePort;
  if (argc != 3) {
    std::fputs("usage: relay PORT BACKEND_PORT\n", stderr);
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  const std::uint16_t backend_port = ParsePort(argv[2]);
  recourse::bench::Relay(recourse::bench::Listen(ParsePort(argv[1])), backend_port).Run();
}
