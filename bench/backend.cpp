// A backend that costs as little as possible: it reads each request to its end and sends a fixed
// answer, 64 KiB under /64k, the result of an MCP tool under /mcp and 1 KiB else, for every method.
//
// usage: backend PORT
#include <algorithm>
#include <charconv>
#include <csignal>
#include <memory>
#include <string>
#include <string_view>

#include "bench/sockets.h"

namespace recourse::bench {
namespace {

constexpr int kEventsMax = 256;
constexpr std::size_t kBufferBytes = 128 * 1024;
constexpr std::size_t kHeadBytesMax = 16 * 1024;

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

struct Connection {
  int fd = -1;
  std::string in{}, out{};
  std::size_t body_bytes_left = 0;
  const std::string* answer = nullptr;  // to the request that is being read
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
        result_(RenderAnswer(1024, kResult, kResultEnd)),
        buffer_(std::make_unique<char[]>(kBufferBytes)) {
    if (epoll_ < 0) Die("epoll_create1");
    Watch(epoll_, EPOLL_CTL_ADD, listener_, EPOLLIN, nullptr);
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
        if ((events[i].events & EPOLLOUT) != 0) Flush(*connection);
        if ((events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) Read(*connection);
        if (connection->closed) delete connection;
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
        connection.answer = &AnswerTo(head.substr(0, head.find('\r')));
        connection.body_bytes_left = ContentLength(head);
      }
      if (connection.body_bytes_left == 0) connection.out += *connection.answer;
    }
    return used;
  }

  const std::string& AnswerTo(std::string_view request_line) const {
    if (request_line.find("/64k") != std::string_view::npos) return large_;
    return request_line.find("/mcp") != std::string_view::npos ? result_ : small_;
  }

  void Flush(Connection& connection) {
    if (connection.closed || connection.out.empty()) return;
    const ssize_t sent = ::send(connection.fd, connection.out.data(), connection.out.size(),
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN) return Close(connection);
    if (sent > 0) connection.out.erase(0, static_cast<std::size_t>(sent));
    const bool must_wait = !connection.out.empty();
    if (must_wait == connection.watches_write) return;
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
  const std::string small_, large_, result_;
  const std::unique_ptr<char[]> buffer_;
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
