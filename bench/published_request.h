// The request of the published measurements: what an agent's HTTP client sends.
#pragma once

#include <string>

namespace recourse::bench {

inline constexpr char kPublishedGet[] =
    "GET /1k HTTP/1.1\r\nHost: 127.0.0.1:19080\r\nUser-Agent: agent/1.0\r\nAccept: */*\r\n"
    "Accept-Encoding: gzip, deflate\r\n"
    "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
    "traceparent: 00-77777777777777770000000000000001-00f067aa0ba902b7-01\r\n\r\n";

inline constexpr char kPublishedAnswer[] =
    "HTTP/1.1 200 OK\r\nServer: backend\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    "Content-Type: application/json\r\nCache-Control: no-store\r\nContent-Length: 1024\r\n\r\n";

// A JSON body of about 1 KiB: an order of eight items.
inline std::string OrderBody() {
  std::string body =
      R"({"order_id":"0000000000000001","customer":{"id":"ada","tier":"gold"},"items":[)";
  for (int i = 0; i < 8; ++i) {
    if (i > 0) body += ",";
    body += R"({"sku":"sku-)" + std::to_string(1000 + i) +
            R"(","quantity":2,"price":19.90,"note":"leave it at the door, please ring twice"})";
  }
  return body + R"(],"total":318.40,"currency":"EUR"})";
}

}  // namespace recourse::bench
