// A backend that costs as little as possible: it reads each request to its end and sends a fixed
// answer for every method: 64 KiB under /64k, 10 MiB under /10m, the result of an MCP tool under
// /mcp, else 1 KiB. Under /events it sends ten events a second that carry the time at which they
// were sent; under /hang it never answers.
//
// usage: backend PORT
#include <sys/timerfd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sockets.h"

namespace recourse::bench {
namespace {

constexpr int kEventsMax = 256;
constexpr std::size_t kBufferBytes = 128 * 1024;
constexpr std::size_t kHeadBytesMax = 16 * 1024;
constexpr std::size_t kTickMs = 1,
                      kEventMs = 100;  // how often anything, and each stream, is served

constexpr std::string_view kOrder = "{\"id\":\"order-1\",\"text\":\"", kOrderEnd = "\"}";
// To the request with the id 1.
constexpr std::string_view kResult =
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"";
constexpr std::string_view kResultEnd = "\"}]}}";

std::string RenderAnswer(std::size_t body_bytes, std::string_view opening,
                         std::string_view closing) {
  std::string body(opening);
  body.append(body_bytes - opening.size() - closing.size(), 'x').append(closing);
  return "HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
         "Content-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

// What a request is answered with.
enum class Kind { kSmall, kLarge, kHuge, kResult, kEvents, kNothing };

Kind KindOf(std::string_view request_line) {
  const auto names = [&](std::string_view path) {
    return request_line.find(path) != std::string_view::npos;
  };
  if (names(" /64k")) return Kind::kLarge;
  if (names(" /10m")) return Kind::kHuge;
  if (names(" /mcp")) return Kind::kResult;
  if (names(" /events")) return Kind::kEvents;
  if (names(" /hang")) return Kind::kNothing;
  return Kind::kSmall;
}

// One event as a chunk; the time at which it is sent lets the reader know how long it took.
std::string RenderEvent() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::string line =
      "data: " + std::to_string(std::chrono::nanoseconds(now).count()) + " {\"text\":\"";
  line += std::string(122 - line.size(), 'x') + "\"}\n\n";
  return "7e\r\n" + line + "\r\n";
}

// nginx is asked not to keep events back, as everybody who streams through it has to.
constexpr std::string_view kEventsHead =
    "HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    "Content-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n";

struct Connection {
  int fd = -1;
  std::string in{};
  std::vector<std::string_view> out{};  // of texts that live as long as the backend
  std::size_t body_bytes_left = 0;
  Kind kind = Kind::kSmall;  // of the answer to the request that is being read
  bool watches_write = false;
  bool closed = false;
};

// The value of Content-Length, found as the proxies under test write it; 0 without one.
std::size_t ContentLength(std::string_view head) {
  constexpr std::string_view kName = "content-length:";
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos;
       at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, kName.size());
    if (line.size() < kName.size() || ::strncasecmp(line.data(), kName.data(), kName.size()) != 0) {
      continue;
    }
    std::string_view value = head.substr(at + 2 + kName.size());
    while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    std::size_t length = 0;
    std::from_chars(value.data(), value.data() + value.size(), length);
    return length;
  }
  return 0;
}

class Backend {
 public:
  explicit Backend(int listener)
      : listener_(listener),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        small_(RenderAnswer(1024, kOrder, kOrderEnd)),
        large_(RenderAnswer(64 * 1024, kOrder, kOrderEnd)),
        huge_(RenderAnswer(10 * 1024 * 1024, kOrder, kOrderEnd)),
        result_(RenderAnswer(1024, kResult, kResultEnd)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
        buffer_(std::make_unique<char[]>(kBufferBytes)) {
    if (epoll_ < 0) Die("epoll_create1");
    Watch(epoll_, EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
    if (timer_ < 0) Die("timerfd_create");
    Watch(epoll_, EPOLL_CTL_ADD, timer_, EPOLLIN, &streams_);
  }

  [[noreturn]] void Run() {
    epoll_event events[kEventsMax];
    for (;;) {
      const int count = ::epoll_wait(epoll_, events, kEventsMax, -1);
      for (int i = 0; i < count; ++i) {
        auto* connection = static_cast<Connection*>(events[i].data.ptr);
        if (connection == nullptr) {
          Accept();
          continue;
        }
        if (events[i].data.ptr == &streams_) {
          Tick();
          continue;
        }
        if ((events[i].events & EPOLLOUT) != 0) Flush(*connection);
        if ((events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) Read(*connection);
        if (connection->closed) {
          std::erase(streams_, connection);
          delete connection;
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
      Watch(epoll_, EPOLL_CTL_ADD, fd, EPOLLIN, new Connection{.fd = fd});
    }
  }

  void Read(Connection& connection) {
    const ssize_t size = ::recv(connection.fd, buffer_.get(), kBufferBytes, MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return Close(connection);
    std::string_view data(buffer_.get(), static_cast<std::size_t>(size));
    // The usual case, one whole request in one piece, is answered without a copy.
    if (!connection.in.empty()) {
      connection.in.append(data);
      data = connection.in;
    }
    const std::size_t used = Consume(connection, data);
    if (connection.in.empty()) {
      connection.in.assign(data.substr(used));
    } else {
      connection.in.erase(0, used);
    }
    if (connection.in.size() > kHeadBytesMax) return Close(connection);
    Flush(connection);
  }

  // Takes whole heads and pieces of bodies; queues one answer per request. Returns bytes taken.
  std::size_t Consume(Connection& connection, std::string_view data) {
    std::size_t used = 0;
    while (used < data.size()) {
      if (connection.body_bytes_left > 0) {
        const std::size_t piece = std::min(connection.body_bytes_left, data.size() - used);
        connection.body_bytes_left -= piece;
        used += piece;
      } else {
        const std::size_t end = data.find("\r\n\r\n", used);
        if (end == std::string_view::npos) return used;
        const std::string_view head = data.substr(used, end - used + 4);
        used = end + 4;
        connection.kind = KindOf(head.substr(0, head.find('\r')));
        connection.body_bytes_left = ContentLength(head);
      }
      if (connection.body_bytes_left == 0) Answer(connection);
    }
    return used;
  }

  void Answer(Connection& connection) {
    switch (connection.kind) {
      case Kind::kSmall:
        return connection.out.push_back(small_);
      case Kind::kLarge:
        return connection.out.push_back(large_);
      case Kind::kHuge:
        return connection.out.push_back(huge_);
      case Kind::kResult:
        return connection.out.push_back(result_);
      case Kind::kEvents:
        connection.out.push_back(kEventsHead);
        streams_.push_back(&connection);
        return SetTicking(true);
      case Kind::kNothing:
        return;
    }
  }

  void SetTicking(bool is_on) {
    const long every_ns = is_on ? static_cast<long>(kTickMs) * 1'000'000 : 0;
    const itimerspec times{.it_interval = {.tv_sec = 0, .tv_nsec = every_ns},
                           .it_value = {.tv_sec = 0, .tv_nsec = every_ns}};
    if (::timerfd_settime(timer_, 0, &times, nullptr) != 0) Die("timerfd_settime");
  }

  // Serves as many streams as are due, in turn, so that they are spread over the time.
  void Tick() {
    std::uint64_t ticks = 0;
    if (::read(timer_, &ticks, sizeof ticks) != sizeof ticks) return;
    if (streams_.empty()) return SetTicking(false);
    due_ += ticks * kTickMs * streams_.size();
    for (; due_ >= kEventMs; due_ -= kEventMs) {
      next_ = next_ < streams_.size() ? next_ : 0;
      Connection& stream = *streams_[next_++];
      const std::string event = RenderEvent();
      // A reader that does not keep up misses events: it must not slow down the others.
      if (!stream.out.empty()) continue;
      const ssize_t sent =
          ::send(stream.fd, event.data(), event.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      // Half an event cannot be mended; the loop then sees the end of the connection.
      if (sent > 0 && sent < static_cast<ssize_t>(event.size())) ::shutdown(stream.fd, SHUT_RDWR);
    }
  }

  void Flush(Connection& connection) {
    while (!connection.closed && !connection.out.empty()) {
      std::string_view& out = connection.out.front();
      const ssize_t sent =
          ::send(connection.fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return Close(connection);
      if (sent > 0) out.remove_prefix(static_cast<std::size_t>(sent));
      if (!out.empty()) break;
      connection.out.erase(connection.out.begin());
    }
    const bool must_wait = !connection.out.empty();
    if (connection.closed || must_wait == connection.watches_write) return;
    Watch(epoll_, EPOLL_CTL_MOD, connection.fd, must_wait ? EPOLLIN | EPOLLOUT : EPOLLIN,
          &connection);
    connection.watches_write = must_wait;
  }

  static void Close(Connection& connection) {
    if (!connection.closed) ::close(connection.fd);
    connection.closed = true;
  }

  const int listener_;
  const int epoll_;
  const std::string small_, large_, huge_, result_;
  const int timer_;
  const std::unique_ptr<char[]> buffer_;
  std::vector<Connection*> streams_{};
  std::size_t next_ = 0;   // the stream that is served next
  std::uint64_t due_ = 0;  // events to be sent, times kEventMs
};

}  // namespace
}  // namespace recourse::bench

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: backend PORT\n", stderr);
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  recourse::bench::Backend(recourse::bench::Listen(recourse::bench::ParsePort(argv[1]))).Run();
}
