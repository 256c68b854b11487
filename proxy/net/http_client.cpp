#include "proxy/net/http_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

namespace recourse {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr std::uint64_t kBodyBytesMax = 256 * 1024 * 1024;

}  // namespace

std::expected<HttpResponse, std::string> Fetch(const std::string& host, const std::string& port,
                                               const HttpRequest& request, int timeout_s) {
  asio::io_context context;
  tcp::resolver resolver(context);
  boost::system::error_code ec;
  const auto endpoints = resolver.resolve(host, port, ec);
  if (ec) return std::unexpected("cannot resolve " + host + ": " + ec.message());
  tcp::socket socket(context);
  asio::connect(socket, endpoints, ec);
  if (ec) return std::unexpected("cannot connect to " + host + ":" + port + ": " + ec.message());
  const timeval limit{timeout_s, 0};
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);

  http::request<http::string_body> message(http::string_to_verb(request.method), request.target,
                                           11);
  message.set(http::field::host, host + ":" + port);
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = request.body;
  message.prepare_payload();
  message.keep_alive(false);
  http::write(socket, message, ec);
  if (ec) return std::unexpected("cannot send to " + host + ":" + port + ": " + ec.message());

  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(kBodyBytesMax);
  http::read(socket, buffer, parser, ec);
  if (ec) return std::unexpected("no answer from " + host + ":" + port + ": " + ec.message());
  HttpResponse response;
  response.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    response.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  }
  response.body = std::move(parser.get().body());
  return response;
}

}  // namespace recourse
