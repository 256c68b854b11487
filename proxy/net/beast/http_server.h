// A small HTTP server for the admin and probe ports, over Beast, on a loop thread of its own. Off
// the data plane: handlers may block.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "proxy/base/http/http_message.h"
#include "proxy/net/tls/tls_server.h"

namespace recourse {

// A body that is made while it is sent, and that nobody knows the length of before.
class BodySource {
 public:
  virtual ~BodySource() = default;
  virtual int fd() const = 0;  // read to its end; stays the source's own
  // After the end: whether the body is whole. If not, the connection breaks off, so that nobody
  // takes a part for all.
  virtual bool Finish() = 0;
};

struct ServedAnswer {
  ServedAnswer(HttpResponse plain) : head(std::move(plain)) {}  // implicit: most answers are plain
  ServedAnswer(HttpResponse streamed, std::unique_ptr<BodySource> source)
      : head(std::move(streamed)), body(std::move(source)) {}

  // The connection ends without a byte of an answer.
  static ServedAnswer HangUp() {
    ServedAnswer none{HttpResponse()};
    none.hangs_up = true;
    return none;
  }

  HttpResponse head;
  std::unique_ptr<BodySource> body;  // in place of head.body
  bool hangs_up = false;
};

// Who sent a request, as far as the connection tells.
struct HttpPeer {
  boost::asio::ip::address address;
  bool is_secure = false;   // TLS
  std::string certificate;  // the identity (tls_identity.h) of the one it showed; empty: none
};

struct HttpServerSettings {
  std::string thread;                              // its name
  std::shared_ptr<const TlsServer> tls = nullptr;  // null: plain; else TLS only
  // A request with a larger body is answered with 413, which ends its connection.
  std::uint64_t body_bytes_max = 1024 * 1024;
  // When there are as many, a new one ends the one that has waited longest for its request.
  std::size_t connections_max = 256;
  // Has what is kept for later use closed: the process may open no more files, and somebody
  // connects. Called on the server's thread.
  std::function<void()> free_files = {};
};

class HttpServer {
 public:
  // Runs on the server's thread, one request at a time. Bodies from a source are sent beside other
  // requests, at most limits::kServedBytesPerSecond each.
  using Handler = std::function<ServedAnswer(const HttpRequest& request, const HttpPeer& peer)>;

  // Listens at once; throws boost::system::system_error when it cannot (start-up only).
  HttpServer(const boost::asio::ip::tcp::endpoint& endpoint, Handler handler,
             const HttpServerSettings& settings);
  ~HttpServer();  // stops and joins

  // New connections use this from now on. Thread-safe.
  void UseTls(std::shared_ptr<const TlsServer> tls);

  // Every connection ends with its next answer from now on; new ones are still taken. Thread-safe.
  void EndConnections();

  boost::asio::ip::tcp::endpoint endpoint() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recourse
