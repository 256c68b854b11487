#include "proxy/net/http_server.h"

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <thread>

#include "proxy/base/log.h"

namespace recourse {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t kConnectionsMax = 256;
constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr std::uint32_t kHeaderBytesMax = 16 * 1024;
constexpr std::uint64_t kBodyBytesMax = 1024 * 1024;
constexpr std::chrono::seconds kIdle{30};

HttpRequest FromBeast(http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  request.target = std::string(message.target());
  for (const auto& field : message) {
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

http::response<http::string_body> ToBeast(HttpResponse response, unsigned version, bool keep) {
  http::response<http::string_body> message(static_cast<http::status>(response.status), version);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  message.set(http::field::cache_control, "no-store");
  message.set("X-Content-Type-Options", "nosniff");
  message.keep_alive(keep);
  message.body() = std::move(response.body);
  message.prepare_payload();
  return message;
}

asio::awaitable<void> Serve(tcp::socket socket, const HttpServer::Handler& handler) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(kBufferBytes);
  boost::system::error_code ec;
  for (bool keep = true; keep;) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(kHeaderBytesMax);
    parser.body_limit(kBodyBytesMax);
    stream.expires_after(kIdle);
    co_await http::async_read(stream, buffer, parser,
                              asio::redirect_error(asio::use_awaitable, ec));
    if (ec) break;
    auto message = parser.release();
    keep = message.keep_alive();
    const bool is_head = message.method() == http::verb::head;
    const unsigned version = message.version();
    auto answer = ToBeast(handler(FromBeast(message)), version, keep);
    stream.expires_after(kIdle);
    if (is_head) {
      http::response_serializer<http::string_body> serializer(answer);
      co_await http::async_write_header(stream, serializer,
                                        asio::redirect_error(asio::use_awaitable, ec));
    } else {
      co_await http::async_write(stream, answer, asio::redirect_error(asio::use_awaitable, ec));
    }
    if (ec) break;
  }
  (void)stream.socket().shutdown(tcp::socket::shutdown_send, ec);
}

}  // namespace

struct HttpServer::Impl {
  Impl(const tcp::endpoint& endpoint, Handler on_request)
      : handler(std::move(on_request)), acceptor(context, endpoint) {}

  asio::awaitable<void> Accept() {
    boost::system::error_code ec;
    while (acceptor.is_open()) {
      tcp::socket socket(context);
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, ec));
      if (ec == asio::error::operation_aborted) co_return;
      if (ec || connections >= kConnectionsMax) {
        // Out of descriptors or over the bound: let some connections end first.
        asio::steady_timer pause(context, std::chrono::milliseconds(50));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
        continue;
      }
      ++connections;
      asio::co_spawn(context, Serve(std::move(socket), handler),
                     [this](std::exception_ptr) { --connections; });
    }
  }

  const Handler handler;
  asio::io_context context{1};
  tcp::acceptor acceptor;
  std::size_t connections = 0;
  std::thread thread;
};

HttpServer::HttpServer(const tcp::endpoint& endpoint, Handler handler)
    : impl_(std::make_unique<Impl>(endpoint, std::move(handler))) {
  asio::co_spawn(impl_->context, impl_->Accept(), [](std::exception_ptr) {});
  impl_->thread = std::thread([this] { impl_->context.run(); });
}

HttpServer::~HttpServer() {
  impl_->context.stop();
  impl_->thread.join();
}

tcp::endpoint HttpServer::endpoint() const { return impl_->acceptor.local_endpoint(); }

}  // namespace recourse
