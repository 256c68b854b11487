// A blocking HTTP client: for the command line, and for threads that may wait.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "proxy/base/clock.h"
#include "proxy/base/http/http_message.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {

// Where a request goes.
struct HttpPlace {
  std::string host, port;
  std::shared_ptr<TlsClient> tls = nullptr;                 // null: plain
  std::uint64_t body_bytes_max = std::uint64_t{256} << 20;  // of an answer held in memory
  Millis total{0};  // of all waiting together, besides looking the name up; zero: no bound
};

// Sends one request and waits at most `timeout_s` for each step. The error is one line for people.
std::expected<HttpResponse, std::string> Fetch(const HttpPlace& place, const HttpRequest& request,
                                               int timeout_s);

// Like Fetch, again and again, over one connection for as long as the other side keeps it. A
// request that such an end meets fails, as nobody knows what became of it.
class HttpCaller {
 public:
  HttpCaller(HttpPlace place, int timeout_s);
  ~HttpCaller();
  std::expected<HttpResponse, std::string> Call(const HttpRequest& request);

 private:
  struct Kept;
  const HttpPlace place_;
  const int timeout_s_;
  std::unique_ptr<Kept> kept_;
};

// Like Fetch, for an answer that may go on: ends as soon as `is_enough` says so of what has come.
std::expected<HttpResponse, std::string> FetchUntil(
    const HttpPlace& place, const HttpRequest& request, int timeout_s,
    const std::function<bool(const HttpResponse& so_far)>& is_enough);

// Like Fetch, for an answer of any size: writes the body of a 200 into the open file `file`. The
// body of any other answer is the error, as is an answer that breaks off.
std::expected<void, std::string> Download(const HttpPlace& place, const HttpRequest& request,
                                          int timeout_s, int file);

}  // namespace recourse
