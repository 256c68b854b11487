// Heads as real clients and servers send them must be accepted; and whatever is accepted after a
// byte was changed must be read the same way by a second parser (Beast) and survive being rendered.
#include <gtest/gtest.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/net/head_cases.h"

namespace recourse::known_heads_test {
namespace {

namespace http = boost::beast::http;

const std::vector<std::string>& KnownRequests() {
  static const std::vector<std::string> requests = {
      // curl
      "POST /orders HTTP/1.1\r\nHost: 127.0.0.1:19080\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n"
      "Content-Type: application/json\r\nContent-Length: 17\r\n\r\n",
      "POST /orders HTTP/1.1\r\nHost: a\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n"
      "Transfer-Encoding: chunked\r\nContent-Type: application/x-www-form-urlencoded\r\n"
      "Expect: 100-continue\r\n\r\n",
      "GET http://orders.svc:8080/orders HTTP/1.1\r\nHost: orders.svc:8080\r\n"
      "User-Agent: curl/7.88.1\r\nAccept: */*\r\nProxy-Connection: Keep-Alive\r\n\r\n",
      "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\nUser-Agent: curl/7.88.1\r\n"
      "Proxy-Connection: Keep-Alive\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
      "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
      // Python requests, httpx, aiohttp
      "POST /v1/charges HTTP/1.1\r\nHost: payments:8080\r\nUser-Agent: python-requests/2.28.1\r\n"
      "Accept-Encoding: gzip, deflate, br\r\nAccept: */*\r\nConnection: keep-alive\r\n"
      "Content-Length: 0\r\n\r\n",
      "GET /orders?tag=a&tag=b HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n"
      "Accept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
      "User-Agent: python-httpx/0.27.0\r\n\r\n",
      "DELETE /orders/7 HTTP/1.1\r\nHost: a:1\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
      "User-Agent: Python/3.11 aiohttp/3.8.4\r\n\r\n",
      // Node fetch (undici), axios, http
      "POST /orders HTTP/1.1\r\nhost: 127.0.0.1:19080\r\nconnection: keep-alive\r\n"
      "content-type: application/json\r\naccept: */*\r\naccept-language: *\r\n"
      "sec-fetch-mode: cors\r\nuser-agent: undici\r\naccept-encoding: gzip, deflate\r\n"
      "content-length: 17\r\n\r\n",
      "POST /orders HTTP/1.1\r\nAccept: application/json, text/plain, */*\r\n"
      "Content-Type: application/json\r\nUser-Agent: axios/1.6.8\r\nContent-Length: 2\r\n"
      "Accept-Encoding: gzip, compress, deflate, br\r\nHost: 127.0.0.1:3000\r\n"
      "Connection: close\r\n\r\n",
      // Stripe's Node SDK
      "POST /v1/payment_intents HTTP/1.1\r\nAuthorization: Bearer sk_test_1\r\n"
      "Accept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\n"
      "Content-Length: 25\r\nUser-Agent: Stripe/v1 NodeBindings/14.0.0\r\n"
      "X-Stripe-Client-User-Agent: {\"bindings_version\":\"14.0.0\",\"lang\":\"node\"}\r\n"
      "Idempotency-Key: stripe-node-retry-8b4f6b0e-6c1d-4d0c-8a55-0f3f5b1f2f53\r\n"
      "Stripe-Version: 2023-10-16\r\nHost: api.stripe.com\r\nConnection: keep-alive\r\n\r\n",
      // Go, Java, .NET, Ruby
      "PUT /a%20b/c HTTP/1.1\r\nHost: [::1]:8080\r\nUser-Agent: Go-http-client/1.1\r\n"
      "Transfer-Encoding: chunked\r\nAccept-Encoding: gzip\r\n\r\n",
      "GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 0\r\n"
      "Host: localhost:8080\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
      "Upgrade: h2c\r\nUser-Agent: Java-http-client/17.0.1\r\n\r\n",
      "PATCH /x HTTP/1.1\r\nHost: a\r\ntraceparent: "
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=1,b=2\r\n"
      "baggage: k=v\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
      "POST /upload HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=----x\r\n"
      "Accept-Encoding: gzip;q=1.0,deflate;q=0.6,identity;q=0.3\r\nAccept: */*\r\n"
      "User-Agent: Ruby\r\nConnection: close\r\nHost: a:4567\r\nContent-Length: 100\r\n\r\n",
      // MCP over HTTP
      "POST /mcp HTTP/1.1\r\nhost: mcp-files:3000\r\naccept: application/json, "
      "text/event-stream\r\n"
      "content-type: application/json\r\nmcp-session-id: 1868a90c\r\n"
      "mcp-protocol-version: 2025-06-18\r\ncontent-length: 120\r\n\r\n",
      // wrk, ab, wget, a browser, a kubelet
      "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n",
      "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: a:1\r\nUser-Agent: ApacheBench/2.3\r\n"
      "Accept: */*\r\n\r\n",
      "GET /x HTTP/1.1\r\nHost: a\r\nUser-Agent: Wget/1.21.3\r\nAccept: */*\r\n"
      "Accept-Encoding: identity\r\nConnection: Keep-Alive\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: localhost:19081\r\nConnection: keep-alive\r\n"
      "sec-ch-ua: \"Chromium\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n"
      "Upgrade-Insecure-Requests: 1\r\nCookie: a=1; b=\"x y\"\r\n"
      "Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
  };
  return requests;
}

const std::vector<std::string>& KnownResponses() {
  static const std::vector<std::string> responses = {
      "HTTP/1.1 201 Created\r\nX-Powered-By: Express\r\nVary: Origin, X-HTTP-Method-Override\r\n"
      "Location: http://a/orders/7\r\nContent-Type: application/json; charset=utf-8\r\n"
      "Content-Length: 59\r\nETag: W/\"3b-x\"\r\nDate: Thu, 20 Nov 2025 10:00:00 GMT\r\n"
      "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\n\r\n",
      "HTTP/1.1 200 OK\r\ndate: Thu, 20 Nov 2025 10:00:00 GMT\r\nserver: uvicorn\r\n"
      "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
      "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Type: text/html\r\n"
      "Content-Length: 615\r\nConnection: keep-alive\r\nAccept-Ranges: bytes\r\n\r\n",
      "HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6 Python/3.11.2\r\nContent-type: text/html\r\n"
      "Content-Length: 5\r\n\r\n",
      "HTTP/1.1 204 No Content\r\nServer: gunicorn\r\nConnection: close\r\n\r\n",
      "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\n",
      "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
      "HTTP/1.1 502 \r\nContent-Length: 0\r\n\r\n",
  };
  return responses;
}

// What the second parser sees, or false when it refuses or wants more.
template <bool kIsRequest>
bool BeastReads(const std::string& bytes, http::parser<kIsRequest, http::empty_body>& parser) {
  boost::beast::error_code ec;
  parser.header_limit(limits::kHeadBytesMax);
  parser.body_limit(boost::none);
  parser.skip(!kIsRequest);
  parser.put(boost::asio::buffer(bytes), ec);
  return !ec && parser.is_header_done();
}

// Our table and Beast's fields must tell the same, in any order that Beast keeps.
template <class Message>
void ExpectSameFields(const Head& head, const Message& message) {
  std::size_t count = 0;
  for (const auto& field : message) {
    (void)field;
    ++count;
  }
  ASSERT_EQ(count, head.field_count);
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const auto [first, last] = message.equal_range(
        boost::beast::string_view(head.fields[i].name.data(), head.fields[i].name.size()));
    bool found = false;
    for (auto at = first; at != last; ++at) {
      found =
          found || std::string_view(at->value().data(), at->value().size()) == head.fields[i].value;
    }
    EXPECT_TRUE(found) << head.fields[i].name;
  }
}

void ExpectBeastAgrees(const std::string& bytes, const Head& head) {
  // Beast does not skip empty lines, and it stops at most at the end of the head.
  const std::string lines = bytes.substr(bytes.find_first_not_of("\r\n"));
  http::request_parser<http::empty_body> parser;
  ASSERT_TRUE(BeastReads(lines, parser));
  const auto& message = parser.get();
  EXPECT_EQ(std::string(message.method_string()), head.method);
  EXPECT_EQ(std::string(message.target()), head.target);
  EXPECT_EQ(message.version(), 10U + static_cast<unsigned>(head.minor));
  EXPECT_EQ(message.chunked(), head.body == BodyKind::kChunked);
  const auto length = parser.content_length();
  EXPECT_EQ(length.has_value(), head.body == BodyKind::kLength);
  if (length) EXPECT_EQ(*length, head.content_length);
  EXPECT_TRUE(!head.keep_alive || message.keep_alive());
  ExpectSameFields(head, message);
}

// Rendered from the table and read again, the same fields are there.
void ExpectRenderedHeadReadsTheSame(const Head& head) {
  std::vector<char> out(limits::kHeadBytesMax + 64);
  HeadWriter writer(out.data(), out.size());
  writer.StartRequest(head.method, head.target);
  writer.CopyFields(head, 0);
  if (head.body == BodyKind::kLength) writer.ContentLength(head.content_length);
  if (head.body == BodyKind::kChunked) writer.Chunked();
  writer.End();
  ASSERT_TRUE(writer.ok());
  const auto again = std::make_unique<Head>();
  // A head of version 1.0 may lack the Host that our 1.1 needs.
  if (head.host.empty()) return;
  ASSERT_EQ(ParseRequestHead(writer.view(), *again).state, ParseState::kComplete) << writer.view();
  EXPECT_EQ(again->size, writer.view().size());
  EXPECT_EQ(again->body, head.body);
  EXPECT_EQ(again->content_length, head.content_length);
  std::size_t next = 0;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const Field& field = head.fields[i];
    if (field.hop || field.id == FieldId::kContentLength) continue;
    ASSERT_LT(next, again->field_count);
    EXPECT_EQ(again->fields[next].name, field.name);
    EXPECT_EQ(again->fields[next].value, field.value);
    ++next;
  }
}

TEST(KnownHeadsTest, RequestsOfRealClientsAreAccepted) {
  for (const std::string& bytes : KnownRequests()) {
    EXPECT_EQ(RequestVerdict(bytes), "ok") << bytes;
    const auto head = std::make_unique<Head>();
    ASSERT_EQ(ParseRequestHead(bytes, *head).state, ParseState::kComplete);
    ExpectBeastAgrees(bytes, *head);
    ExpectRenderedHeadReadsTheSame(*head);
  }
}

TEST(KnownHeadsTest, AnswersOfRealServersAreAccepted) {
  for (const std::string& bytes : KnownResponses()) {
    EXPECT_EQ(ResponseVerdict(bytes), "ok") << bytes;
    const auto head = std::make_unique<Head>();
    ASSERT_EQ(ParseResponseHead(bytes, "GET", *head).state, ParseState::kComplete);
    http::response_parser<http::empty_body> parser;
    ASSERT_TRUE(BeastReads(bytes, parser)) << bytes;
    EXPECT_EQ(parser.get().result_int(), static_cast<unsigned>(head->status));
    ExpectSameFields(*head, parser.get());
  }
}

bool HasField(const Head& head, FieldId id) {
  for (std::size_t i = 0; i < head.field_count; ++i) {
    if (head.fields[i].id == id) return true;
  }
  return false;
}

std::string Mutated(const std::string& bytes, std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"\r\n",
                                                   "\n",
                                                   "\r",
                                                   " ",
                                                   "\t",
                                                   ":",
                                                   ",",
                                                   "\0",
                                                   "\x7f",
                                                   "\xff",
                                                   ";",
                                                   "/",
                                                   "#",
                                                   "_",
                                                   "0",
                                                   "-",
                                                   "Content-Length: 3\r\n",
                                                   "Transfer-Encoding: chunked\r\n",
                                                   "Host: b\r\n",
                                                   "chunked",
                                                   "Connection: close, host\r\n",
                                                   "\r\n\r\n",
                                                   "HTTP/1.1",
                                                   "\r\n ",
                                                   "x"};
  std::string changed = bytes;
  for (unsigned n = 1 + random() % 3; n > 0; --n) {
    const std::size_t at = random() % changed.size();
    const std::string& piece = kPieces[random() % kPieces.size()];
    switch (random() % 4) {
      case 0:
        changed[at] = static_cast<char>(random());
        break;
      case 1:
        changed.insert(at, piece);
        break;
      case 2:
        changed.erase(at, 1 + random() % 4);
        break;
      default: {
        // Half of what is interesting happens at line starts.
        const std::size_t line = changed.find("\r\n", at);
        changed.insert(line == std::string::npos ? at : line + 2, piece);
      }
    }
    if (changed.empty()) return bytes;
  }
  return changed;
}

TEST(KnownHeadsTest, WhateverIsAcceptedAfterAChangeIsReadTheSameByAnotherParser) {
  constexpr unsigned kSeed = 7;
  std::mt19937 random(kSeed);
  const auto head = std::make_unique<Head>();
  int accepted = 0;
  for (int i = 0; i < 40'000; ++i) {
    const std::string bytes = Mutated(KnownRequests()[random() % KnownRequests().size()], random);
    if (ParseRequestHead(bytes, *head).state != ParseState::kComplete) continue;
    // Beast reads this one like Connection; we only drop it.
    if (HasField(*head, FieldId::kProxyConnection)) continue;
    ++accepted;
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", case " + std::to_string(i) + ":\n" + bytes);
    const std::string consumed = bytes.substr(0, head->size);
    ExpectBeastAgrees(consumed, *head);
    ExpectRenderedHeadReadsTheSame(*head);
    if (HasFailure()) return;
  }
  EXPECT_GT(accepted, 1'000);
}

}  // namespace
}  // namespace recourse::known_heads_test
