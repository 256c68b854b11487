// A small HTTP server for the admin and probe ports, over Beast, on a thread of its own. Off the
// data plane: handlers may block.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "proxy/base/http_message.h"

namespace recourse {

class HttpServer {
 public:
  // Runs on the server's thread, one request at a time.
  using Handler = std::function<HttpResponse(const HttpRequest& request)>;

  // Listens at once; throws boost::system::system_error when it cannot (start-up only).
  HttpServer(const boost::asio::ip::tcp::endpoint& endpoint, Handler handler);
  ~HttpServer();  // stops and joins

  boost::asio::ip::tcp::endpoint endpoint() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recourse
