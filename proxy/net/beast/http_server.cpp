#include "proxy/net/beast/http_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <list>
#include <mutex>
#include <vector>

#include "proxy/base/crash_point.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/net/loop/loop_thread.h"
#include "proxy/net/loop/socket.h"

namespace recourse {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::size_t kBufferBytes = 64 * 1024;
constexpr std::uint32_t kHeaderBytesMax = 16 * 1024;
constexpr std::chrono::seconds kIdle{30};
// Of a body over the bound this much is read and dropped, so that its sender gets to read why.
constexpr std::size_t kDroppedBytesMax = 16 * 1024 * 1024;
constexpr std::chrono::seconds kDropFor{5};
constexpr std::string_view kLastChunk = "0\r\n\r\n";

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
  if (message.find(http::field::cache_control) == message.end()) {
    message.set(http::field::cache_control, "no-store");
  }
  message.set("X-Content-Type-Options", "nosniff");
  message.keep_alive(keep);
  message.body() = std::move(response.body);
  message.prepare_payload();
  return message;
}

// A connection, plain or TLS, with the few operations that it needs: Beast's own are templates of
// templates, which would take longer to compile than the rest of the proxy.
class Stream {
 public:
  virtual ~Stream() = default;
  // The part that has the socket and the time.
  virtual beast::tcp_stream& below() = 0;
  virtual asio::awaitable<std::size_t> ReadSome(asio::mutable_buffer room,
                                                boost::system::error_code& ec) = 0;
  virtual asio::awaitable<void> Write(asio::const_buffer bytes, boost::system::error_code& ec) = 0;
};

template <class Layers>
class StreamOf : public Stream {
 public:
  template <class... Arguments>
  explicit StreamOf(Arguments&&... arguments) : layers(std::forward<Arguments>(arguments)...) {}
  beast::tcp_stream& below() override { return beast::get_lowest_layer(layers); }
  asio::awaitable<std::size_t> ReadSome(asio::mutable_buffer room,
                                        boost::system::error_code& ec) override {
    co_return co_await layers.async_read_some(room, asio::redirect_error(asio::use_awaitable, ec));
  }
  asio::awaitable<void> Write(asio::const_buffer bytes, boost::system::error_code& ec) override {
    while (!ec && bytes.size() > 0) {
      bytes +=
          co_await layers.async_write_some(bytes, asio::redirect_error(asio::use_awaitable, ec));
    }
  }

  Layers layers;
};

using Plain = StreamOf<beast::tcp_stream>;
using Secure = StreamOf<asio::ssl::stream<beast::tcp_stream>>;

// The bytes of `message`, or of its head alone.
std::string TextOf(http::response<http::string_body>& message, bool head_only) {
  http::response_serializer<http::string_body> serializer(message);
  serializer.split(head_only);
  std::string text;
  boost::system::error_code ec;
  while (!ec && !(head_only ? serializer.is_header_done() : serializer.is_done())) {
    serializer.next(ec, [&](boost::system::error_code&, const auto& buffers) {
      for (const asio::const_buffer part : beast::buffers_range_ref(buffers)) {
        text.append(static_cast<const char*>(part.data()), part.size());
      }
      serializer.consume(beast::buffer_bytes(buffers));
    });
  }
  return text;
}

// Reads the next request. `ec` tells why there is none: also end_of_stream, and body_limit.
asio::awaitable<void> ReadRequest(Stream& stream, beast::flat_buffer& buffer,
                                  http::request_parser<http::string_body>& parser,
                                  boost::system::error_code& ec) {
  parser.eager(true);
  for (;;) {
    if (buffer.size() > 0) {
      const std::size_t taken = parser.put(buffer.data(), ec);
      buffer.consume(taken);
      const bool is_short = ec == http::error::need_more;
      if (is_short) ec = {};
      if (ec || parser.is_done()) co_return;
      // What the parser left for its next turn is not waited for.
      if (!is_short && taken > 0 && buffer.size() > 0) continue;
    }
    if (buffer.size() >= kBufferBytes) ec = http::error::buffer_overflow;
    if (ec) co_return;
    buffer.commit(co_await stream.ReadSome(buffer.prepare(kBufferBytes - buffer.size()), ec));
    if (ec) co_return;
  }
}

// Sends the head, then whatever the source gives. The connection ends after it.
asio::awaitable<void> SendSource(Stream& stream, HttpResponse head, BodySource& source) {
  boost::system::error_code ec;
  auto message = ToBeast(std::move(head), 11, false);
  message.erase(http::field::content_length);
  message.chunked(true);
  stream.below().expires_after(kIdle);
  const std::string text = TextOf(message, /*head_only=*/true);
  co_await stream.Write(asio::buffer(text), ec);
  asio::posix::stream_descriptor in(stream.below().get_executor(), ::dup(source.fd()));
  asio::steady_timer pause(stream.below().get_executor());
  std::vector<char> bytes(kBufferBytes);
  auto due = asio::steady_timer::clock_type::now();
  while (!ec) {
    const std::size_t size = co_await in.async_read_some(
        asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, ec));
    if (ec) break;
    stream.below().expires_after(kIdle);
    const std::string chunk =
        fmt::format("{:x}\r\n{}\r\n", size, std::string_view(bytes.data(), size));
    co_await stream.Write(asio::buffer(chunk), ec);
    RC_CRASH_POINT("k24");
    due += std::chrono::nanoseconds(size * 1'000'000'000 / limits::kServedBytesPerSecond);
    pause.expires_at(due);
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  }
  if (ec != asio::error::eof || !source.Finish()) co_return;
  stream.below().expires_after(kIdle);
  ec = {};
  co_await stream.Write(asio::buffer(kLastChunk), ec);
}

// Connections whose next request is not there yet, the one that has waited longest first.
using Waiting = std::list<beast::tcp_stream*>;

asio::awaitable<boost::system::error_code> SendAnswer(Stream& stream, ServedAnswer served,
                                                      bool is_head, unsigned version, bool keep) {
  boost::system::error_code ec;
  auto answer = ToBeast(std::move(served.head), version, keep);
  stream.below().expires_after(kIdle);
  const std::string text = TextOf(answer, is_head);
  co_await stream.Write(asio::buffer(text), ec);
  co_return ec;
}

// What all connections of a server share; used on its thread alone, but for `is_ending`.
struct Shared {
  const HttpServer::Handler handler;
  const std::uint64_t body_bytes_max;
  const std::size_t connections_max;
  Waiting waiting;
  std::size_t connections = 0;
  std::atomic<bool> is_ending = false;
};

asio::awaitable<void> RefuseLarge(Stream& stream, std::uint64_t bytes_max) {
  HttpResponse large{413, "", {{"Content-Type", "text/plain; charset=utf-8"}}, {}};
  large.body = "the body has more than " + std::to_string(bytes_max) + " bytes\n";
  boost::system::error_code ec =
      co_await SendAnswer(stream, std::move(large), /*is_head=*/false, 11, /*keep=*/false);
  std::vector<char> bytes(kBufferBytes);
  stream.below().expires_after(kDropFor);
  for (std::size_t dropped = 0; !ec && dropped < kDroppedBytesMax;) {
    dropped += co_await stream.ReadSome(asio::buffer(bytes), ec);
  }
}

asio::awaitable<void> ServeRequests(Stream& stream, const HttpPeer& peer, Shared& shared) {
  beast::flat_buffer buffer(kBufferBytes);
  boost::system::error_code ec;
  for (bool keep = true; keep && !ec;) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(kHeaderBytesMax);
    parser.body_limit(shared.body_bytes_max);
    stream.below().expires_after(kIdle);
    const auto place = shared.waiting.insert(shared.waiting.end(), &stream.below());
    co_await ReadRequest(stream, buffer, parser, ec);
    shared.waiting.erase(place);
    if (ec == http::error::body_limit) co_await RefuseLarge(stream, shared.body_bytes_max);
    if (ec) co_return;
    auto message = parser.release();
    keep = message.keep_alive() && !shared.is_ending;
    const bool is_head = message.method() == http::verb::head;
    const unsigned version = message.version();
    ServedAnswer served = shared.handler(FromBeast(message), peer);
    if (served.hangs_up) co_return;
    if (served.body != nullptr) {
      co_await SendSource(stream, std::move(served.head), *served.body);
      co_return;
    }
    ec = co_await SendAnswer(stream, std::move(served), is_head, version, keep);
  }
}

asio::awaitable<void> ServePlain(tcp::socket socket, Shared& shared) {
  boost::system::error_code ec;
  const HttpPeer peer{socket.remote_endpoint(ec).address(), false, {}};
  Plain stream(std::move(socket));
  co_await ServeRequests(stream, peer, shared);
  (void)stream.below().socket().shutdown(tcp::socket::shutdown_send, ec);
}

// A certificate that names nobody is as good as none: the client stays unknown.
asio::awaitable<void> ServeSecure(tcp::socket socket, std::shared_ptr<const TlsServer> tls,
                                  Shared& shared) {
  boost::system::error_code ec;
  HttpPeer peer{socket.remote_endpoint(ec).address(), true, {}};
  SslPtr ssl = TlsServer::NewSsl(*tls);
  if (ssl == nullptr) co_return;
  Secure stream(beast::tcp_stream(std::move(socket)), ssl.release());
  stream.below().expires_after(limits::kTlsHandshakeTimeout);
  const auto place = shared.waiting.insert(shared.waiting.end(), &stream.below());
  co_await stream.layers.async_handshake(asio::ssl::stream_base::server,
                                         asio::redirect_error(asio::use_awaitable, ec));
  shared.waiting.erase(place);
  if (ec) {
    Log(LogLevel::kDebug, "a TLS handshake of an HTTP port of ours failed",
        {{"reason", ec.message()}});
    co_return;
  }
  if (tls->identifies()) peer.certificate = CallerOf(stream.layers.native_handle()).value_or("");
  co_await ServeRequests(stream, peer, shared);
  stream.below().expires_after(limits::kTlsHandshakeTimeout);
  co_await stream.layers.async_shutdown(asio::redirect_error(asio::use_awaitable, ec));
}

}  // namespace

struct HttpServer::Impl {
  Impl(const tcp::endpoint& endpoint, Handler on_request, const HttpServerSettings& settings)
      : shared{std::move(on_request), settings.body_bytes_max, settings.connections_max, {}},
        free_files(settings.free_files),
        acceptor(thread.context(), endpoint),
        tls(settings.tls) {}

  asio::awaitable<void> Serve(tcp::socket socket) {
    std::shared_ptr<const TlsServer> present;
    {
      const std::lock_guard lock(mutex);
      present = tls;
    }
    if (present == nullptr) return ServePlain(std::move(socket), shared);
    return ServeSecure(std::move(socket), std::move(present), shared);
  }

  asio::awaitable<void> Accept() {
    boost::system::error_code ec;
    while (acceptor.is_open()) {
      tcp::socket socket(thread.context());
      co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, ec));
      if (ec == asio::error::operation_aborted) co_return;
      // Whoever fills the table with silence must not keep a probe of the kubelet out.
      const bool is_full = shared.connections >= shared.connections_max;
      if (!ec && is_full && !shared.waiting.empty()) shared.waiting.front()->cancel();
      if (AreFilesShort(ec.value()) && free_files) free_files();
      if (ec || (is_full && shared.waiting.empty())) {
        // Out of descriptors, or everybody is being served: let some connections end first.
        asio::steady_timer pause(thread.context(), std::chrono::milliseconds(50));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
        continue;
      }
      ++shared.connections;
      asio::co_spawn(thread.context(), Serve(std::move(socket)),
                     [this](std::exception_ptr) { --shared.connections; });
    }
  }

  Shared shared;
  const std::function<void()> free_files;
  LoopThread thread;
  tcp::acceptor acceptor;
  const tcp::endpoint listens = acceptor.local_endpoint();
  std::mutex mutex;
  std::shared_ptr<const TlsServer> tls;  // guarded by mutex
};

HttpServer::HttpServer(const tcp::endpoint& endpoint, Handler handler,
                       const HttpServerSettings& settings)
    : impl_(std::make_unique<Impl>(endpoint, std::move(handler), settings)) {
  asio::co_spawn(impl_->thread.context(), impl_->Accept(), [](std::exception_ptr) {});
  impl_->thread.Start(settings.thread);
}

HttpServer::~HttpServer() {
  impl_->thread.Stop();
  impl_->thread.Join();
}

void HttpServer::UseTls(std::shared_ptr<const TlsServer> tls) {
  const std::lock_guard lock(impl_->mutex);
  impl_->tls = std::move(tls);
}

void HttpServer::EndConnections() { impl_->shared.is_ending = true; }

tcp::endpoint HttpServer::endpoint() const { return impl_->listens; }

}  // namespace recourse
