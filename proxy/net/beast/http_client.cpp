#include "proxy/net/beast/http_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/none.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "proxy/net/tls/tls_stream.h"

namespace recourse {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t kPieceBytes = 64 * 1024;

// One connection, plain or TLS, that waits in each step for at most so long. Reads and writes as
// Beast's synchronous operations want it.
class Wire {
 public:
  Wire(const HttpPlace& place, int timeout_s) : place_(place), timeout_s_(timeout_s) {}

  // The error is a line for people.
  std::expected<void, std::string> Connect();

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, boost::system::error_code& ec) {
    if (tls_ == nullptr) {
      return Plain(POLLIN, [&](auto& error) { return socket_.read_some(buffers, error); }, ec);
    }
    for (const asio::mutable_buffer buffer : beast::buffers_range_ref(buffers)) {
      if (buffer.size() == 0) continue;
      return Step([&] { return tls_->Read(static_cast<char*>(buffer.data()), buffer.size()); }, ec);
    }
    return 0;
  }
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers, boost::system::error_code& ec) {
    if (tls_ == nullptr) {
      return Plain(POLLOUT, [&](auto& error) { return socket_.write_some(buffers, error); }, ec);
    }
    for (const asio::const_buffer buffer : beast::buffers_range_ref(buffers)) {
      if (buffer.size() == 0) continue;
      const iovec part{const_cast<void*>(buffer.data()), buffer.size()};
      return Step([&] { return tls_->Write(std::span(&part, 1)); }, ec);
    }
    return 0;
  }
  // Beast asks for these as well, and calls them nowhere here.
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers);
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers);

 private:
  std::expected<void, std::string> Secure();
  void ConnectTo(const tcp::endpoint& endpoint, boost::system::error_code& ec);
  // Asio itself would wait for a socket forever, whatever SO_RCVTIMEO says; so none ever blocks.
  template <class One>
  std::size_t Plain(short events, One one, boost::system::error_code& ec) {
    for (;;) {
      const std::size_t size = one(ec);
      if (ec != asio::error::would_block && ec != asio::error::try_again) return size;
      if (Wait(events)) continue;
      ec = asio::error::timed_out;
      return 0;
    }
  }
  template <class One>
  std::size_t Step(One one, boost::system::error_code& ec) {
    for (;;) {
      const TlsStep step = one();
      ec = step.error;
      if (step.want == TlsWant::kNothing) return step.size;
      if (!Wait(step.want == TlsWant::kRead ? POLLIN : POLLOUT)) {
        ec = asio::error::timed_out;
        return 0;
      }
    }
  }
  bool Wait(short events) {
    Millis most{timeout_s_ * 1000};
    if (place_.total > Millis{0}) {
      most = std::min(most, std::chrono::ceil<Millis>(begun_ + place_.total - clock_.Now()));
    }
    pollfd one{socket_.native_handle(), events, 0};
    return most > Millis{0} && ::poll(&one, 1, static_cast<int>(most.count())) == 1;
  }

  const HttpPlace& place_;
  const int timeout_s_;
  const SystemClock clock_;
  const MonoTime begun_ = clock_.Now();
  asio::io_context context_;
  tcp::socket socket_{context_};
  std::unique_ptr<TlsStream> tls_;
};

std::expected<void, std::string> Wire::Connect() {
  tcp::resolver resolver(context_);
  boost::system::error_code ec;
  const auto endpoints = resolver.resolve(place_.host, place_.port, ec);
  if (ec) return std::unexpected("cannot resolve " + place_.host + ": " + ec.message());
  for (const auto& endpoint : endpoints) {
    ConnectTo(endpoint.endpoint(), ec);
    if (!ec) break;
  }
  if (ec) {
    return std::unexpected("cannot connect to " + place_.host + ":" + place_.port + ": " +
                           ec.message());
  }
  return place_.tls == nullptr ? std::expected<void, std::string>() : Secure();
}

void Wire::ConnectTo(const tcp::endpoint& endpoint, boost::system::error_code& ec) {
  socket_.close(ec);
  socket_.open(endpoint.protocol(), ec);
  if (!ec) socket_.non_blocking(true, ec);
  if (ec) return;
  if (::connect(socket_.native_handle(), endpoint.data(),
                static_cast<socklen_t>(endpoint.size())) == 0) {
    return;
  }
  int error = errno;
  if (error == EINPROGRESS) {
    socklen_t size = sizeof error;
    error = ETIMEDOUT;
    if (Wait(POLLOUT)) {
      ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  ec.assign(error, boost::system::system_category());
}

std::expected<void, std::string> Wire::Secure() {
  boost::system::error_code ec;
  // No session is ever resumed by one who connects once.
  tls_ = place_.tls->NewStream(socket_.native_handle(), WallTime());
  if (tls_ == nullptr) return std::unexpected("OpenSSL cannot make a TLS connection");
  (void)Step([this] { return tls_->Handshake(); }, ec);
  if (!ec) return {};
  const std::string at = place_.host + ":" + place_.port;
  if (ec == asio::error::timed_out) return std::unexpected(at + " says nothing in TLS");
  return std::unexpected("no TLS with " + at + ": " + std::string(tls_->HandshakeError().detail()));
}

std::expected<void, std::string> Write(Wire& wire, const HttpPlace& place,
                                       const HttpRequest& request, bool keep) {
  http::request<http::string_body> message(http::string_to_verb(request.method), request.target,
                                           11);
  const bool is_v6 = place.host.find(':') != std::string::npos;
  message.set(http::field::host, (is_v6 ? "[" + place.host + "]" : place.host) + ":" + place.port);
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  message.keep_alive(keep);
  boost::system::error_code ec;
  http::write(wire, message, ec);
  if (!ec) return {};
  return std::unexpected("cannot send to " + place.host + ":" + place.port + ": " + ec.message());
}

std::expected<void, std::string> Send(Wire& wire, const HttpPlace& place,
                                      const HttpRequest& request) {
  auto connected = wire.Connect();
  return connected ? Write(wire, place, request, false) : connected;
}

bool WriteAll(int file, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(file, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    size -= static_cast<std::size_t>(written);
  }
  return true;
}

std::string NoAnswer(const HttpPlace& place, const boost::system::error_code& ec) {
  return "no answer from " + place.host + ":" + place.port + ": " + ec.message();
}

HttpResponse HeadOf(const http::response_header<>& head) {
  HttpResponse response;
  response.status = static_cast<int>(head.result_int());
  for (const auto& field : head) {
    response.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  return response;
}

// `keep`, if given: set to whether another request may follow.
std::expected<HttpResponse, std::string> Read(Wire& wire, const HttpPlace& place,
                                              beast::flat_buffer& buffer, bool* keep = nullptr) {
  boost::system::error_code ec;
  http::response_parser<http::string_body> parser;
  parser.body_limit(place.body_bytes_max);
  http::read(wire, buffer, parser, ec);
  if (ec) return std::unexpected(NoAnswer(place, ec));
  HttpResponse response = HeadOf(parser.get());
  response.body = std::move(parser.get().body());
  if (keep != nullptr) *keep = parser.keep_alive();
  return response;
}

}  // namespace

std::expected<HttpResponse, std::string> Fetch(const HttpPlace& place, const HttpRequest& request,
                                               int timeout_s) {
  Wire wire(place, timeout_s);
  if (auto sent = Send(wire, place, request); !sent) return std::unexpected(sent.error());
  beast::flat_buffer buffer;
  return Read(wire, place, buffer);
}

struct HttpCaller::Kept {
  Kept(const HttpPlace& place, int timeout_s) : wire(place, timeout_s) {}
  Wire wire;
  beast::flat_buffer buffer;
};

HttpCaller::HttpCaller(HttpPlace place, int timeout_s)
    : place_(std::move(place)), timeout_s_(timeout_s) {}
HttpCaller::~HttpCaller() = default;

std::expected<HttpResponse, std::string> HttpCaller::Call(const HttpRequest& request) {
  auto kept = std::move(kept_);
  if (kept == nullptr) {
    kept = std::make_unique<Kept>(place_, timeout_s_);
    if (auto made = kept->wire.Connect(); !made) return std::unexpected(made.error());
  }
  if (auto sent = Write(kept->wire, place_, request, true); !sent) {
    return std::unexpected(sent.error());
  }
  bool keep = false;
  auto answer = Read(kept->wire, place_, kept->buffer, &keep);
  if (answer && keep) kept_ = std::move(kept);
  return answer;
}

std::expected<HttpResponse, std::string> FetchUntil(
    const HttpPlace& place, const HttpRequest& request, int timeout_s,
    const std::function<bool(const HttpResponse& so_far)>& is_enough) {
  Wire wire(place, timeout_s);
  if (auto sent = Send(wire, place, request); !sent) return std::unexpected(sent.error());
  boost::system::error_code ec;
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(place.body_bytes_max);
  http::read_header(wire, buffer, parser, ec);
  if (ec) return std::unexpected(NoAnswer(place, ec));
  HttpResponse response = HeadOf(parser.get());
  std::vector<char> piece(kPieceBytes);
  while (!parser.is_done() && !is_enough(response)) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    http::read_some(wire, buffer, parser, ec);
    if (ec == http::error::need_buffer) ec = {};
    if (ec) return std::unexpected("the answer broke off: " + ec.message());
    response.body.append(piece.data(), piece.size() - parser.get().body().size);
  }
  return response;
}

std::expected<void, std::string> Download(const HttpPlace& place, const HttpRequest& request,
                                          int timeout_s, int file) {
  Wire wire(place, timeout_s);
  if (auto sent = Send(wire, place, request); !sent) return sent;
  beast::flat_buffer buffer;
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  boost::system::error_code ec;
  http::read_header(wire, buffer, parser, ec);
  if (ec) return std::unexpected(NoAnswer(place, ec));
  const bool is_good = parser.get().result_int() == 200;
  std::string refusal;
  std::vector<char> piece(kPieceBytes);
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    http::read(wire, buffer, parser, ec);
    if (ec == http::error::need_buffer) ec = {};
    if (ec) return std::unexpected("the answer broke off: " + ec.message());
    const std::size_t size = piece.size() - parser.get().body().size;
    if (!is_good && refusal.size() < kPieceBytes) refusal.append(piece.data(), size);
    if (is_good && !WriteAll(file, piece.data(), size)) {
      return std::unexpected(std::string("cannot write: ") + std::strerror(errno));
    }
  }
  if (!is_good) return std::unexpected(refusal);
  return {};
}

}  // namespace recourse
