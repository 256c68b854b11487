// Hop-by-hop fields, Connection, and the names the proxy acts on.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/net/head_cases.h"

namespace recourse::connection_head_test {
namespace {

using namespace std::string_literals;

std::unique_ptr<Head> Good(const std::string& bytes) {
  auto head = std::make_unique<Head>();
  EXPECT_EQ(ParseRequestHead(bytes, *head).state, ParseState::kComplete) << bytes;
  return head;
}

TEST(ConnectionRules, H01_EveryTokenOfEveryConnectionLineIsHopByHop) {
  const std::string bytes = Post(
      "X-One: 1\r\nConnection: x-one , X-TWO\r\nX-Two: 2\r\nX-Three: 3\r\n"
      "x-two: 22\r\nConnection: ,, close,X-Four,\r\nX-Four: 4\r\nX-On: 0\r\n");
  EXPECT_EQ(RequestVerdict(bytes), "ok");
  const auto head = Good(bytes);
  for (const char* name : {"X-One", "X-Two", "x-two", "X-Four", "Connection"}) {
    EXPECT_TRUE(FieldNamed(*head, name).hop) << name;
  }
  EXPECT_FALSE(FieldNamed(*head, "X-Three").hop);
  EXPECT_FALSE(FieldNamed(*head, "X-On").hop);
  EXPECT_FALSE(head->keep_alive);
}

TEST(ConnectionRules, H01_TheProtectedFieldsCannotBeNominatedAway) {
  const std::vector<std::string> names = {
      "Host",          "Content-Length", "Idempotency-Key", "Recourse-Intent", "Recourse-Flow",
      "Authorization", "traceparent",    "Content-Type",    "Cookie",          "Content-Encoding"};
  std::string lines;
  std::string nominated = "X-Other";
  for (const std::string& name : names) {
    if (name != "Host") lines += name + ": 1\r\n";
    nominated += ", " + name;
  }
  const std::string bytes = Post("Connection: " + nominated + "\r\n" + lines + "X-Other: 1\r\n");
  const auto head = Good(bytes);
  for (const std::string& name : names) EXPECT_FALSE(FieldNamed(*head, name).hop) << name;
  EXPECT_TRUE(FieldNamed(*head, "X-Other").hop);
  EXPECT_EQ(head->body, BodyKind::kLength);
}

TEST(ConnectionRules, H01_ConnectionIsAListOfTokensOfBoundedLength) {
  EXPECT_EQ(RequestVerdict(Post("Connection: a b\r\n")), "400");
  EXPECT_EQ(RequestVerdict(Post("Connection: \"close\"\r\n")), "400");
  EXPECT_EQ(RequestVerdict(Post("Connection:\r\n")), "ok");
  EXPECT_EQ(RequestVerdict(Post("Connection: ,\r\n")), "ok");
  std::string many = "a";
  for (std::size_t i = 1; i < limits::kFieldsMax; ++i) many += ",a";
  EXPECT_EQ(RequestVerdict(Post("Connection: " + many + "\r\n")), "ok");
  EXPECT_EQ(RequestVerdict(Post("Connection: " + many + ",a\r\n")), "431");
}

TEST(ConnectionRules, H02_SomeFieldsNeverGoOn) {
  const std::vector<std::string> names = {"Connection",
                                          "Proxy-Connection",
                                          "Keep-Alive",
                                          "TE",
                                          "Trailer",
                                          "Upgrade",
                                          "HTTP2-Settings",
                                          "Proxy-Authenticate",
                                          "Proxy-Authorization",
                                          "Transfer-Encoding",
                                          "Expect"};
  std::string lines = "Accept: */*\r\n";
  for (const std::string& name : names) {
    lines += name + ": " +
             (name == "Transfer-Encoding" ? "chunked"
              : name == "Expect"          ? "100-continue"
                                          : "x") +
             "\r\n";
  }
  const std::string bytes = Post(lines);
  const auto head = Good(bytes);
  for (const std::string& name : names) EXPECT_TRUE(FieldNamed(*head, name).hop) << name;
  EXPECT_FALSE(FieldNamed(*head, "Accept").hop);
  EXPECT_FALSE(FieldNamed(*head, "Host").hop);
}

TEST(ConnectionRules, H11_OnlyHttp11KeepsTheConnection) {
  EXPECT_TRUE(Good("GET / HTTP/1.1\r\nHost: a\r\n\r\n")->keep_alive);
  EXPECT_TRUE(Good("GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")->keep_alive);
  EXPECT_FALSE(Good("GET / HTTP/1.1\r\nHost: a\r\nConnection: CLOSE\r\n\r\n")->keep_alive);
  EXPECT_FALSE(Good("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")->keep_alive);
  EXPECT_FALSE(Good("GET / HTTP/1.0\r\n\r\n")->keep_alive);
}

TEST(FieldIdTest, NamesAreFoundInAnyCaseAndOnlyWhole) {
  const std::vector<std::pair<std::string, FieldId>> table = {
      {"host", FieldId::kHost},
      {"connection", FieldId::kConnection},
      {"proxy-connection", FieldId::kProxyConnection},
      {"keep-alive", FieldId::kKeepAlive},
      {"te", FieldId::kTe},
      {"trailer", FieldId::kTrailer},
      {"transfer-encoding", FieldId::kTransferEncoding},
      {"content-length", FieldId::kContentLength},
      {"upgrade", FieldId::kUpgrade},
      {"http2-settings", FieldId::kHttp2Settings},
      {"proxy-authenticate", FieldId::kProxyAuthenticate},
      {"proxy-authorization", FieldId::kProxyAuthorization},
      {"expect", FieldId::kExpect},
      {"via", FieldId::kVia},
      {"content-type", FieldId::kContentType},
      {"content-encoding", FieldId::kContentEncoding},
      {"traceparent", FieldId::kTraceparent},
      {"tracestate", FieldId::kTracestate},
      {"baggage", FieldId::kBaggage},
      {"idempotency-key", FieldId::kIdempotencyKey},
      {"recourse-intent", FieldId::kRecourseIntent},
      {"recourse-flow", FieldId::kRecourseFlow},
      {"recourse-session", FieldId::kRecourseSession},
      {"authorization", FieldId::kAuthorization},
      {"x-http-method", FieldId::kMethodOverride},
      {"x-method", FieldId::kMethodOverride},
      {"x-original-url", FieldId::kMethodOverride},
      {"X-Original-URI", FieldId::kMethodOverride},
      {"x-override-url", FieldId::kMethodOverride},
      {"X-Rewrite-URL", FieldId::kMethodOverride},
      {"Script-Name", FieldId::kMethodOverride},
      {"path-info", FieldId::kMethodOverride},
      {"x-script-name", FieldId::kMethodOverride},
      {"x-traversal-path", FieldId::kMethodOverride},
      {"x-method-override", FieldId::kMethodOverride},
      {"x-http-method-override", FieldId::kMethodOverride},
      {"forwarded", FieldId::kForwarded},
      {"x-real-ip", FieldId::kForwarded},
      {"date", FieldId::kDate},
      {"set-cookie", FieldId::kSetCookie},
      {"idempotent-replayed", FieldId::kRecourseOwn},
      {"max-forwards", FieldId::kMaxForwards},
      {"x-accel-redirect", FieldId::kAccelRedirect},
      {"x-sendfile", FieldId::kAccelRedirect},
      {"cookie", FieldId::kCookie}};
  for (const auto& [name, id] : table) {
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    EXPECT_EQ(FieldIdOf(name), id) << name;
    EXPECT_EQ(FieldIdOf(upper), id) << upper;
    const FieldId longer = name.starts_with("recourse-") ? FieldId::kRecourseOwn : FieldId::kOther;
    EXPECT_EQ(FieldIdOf(name + "s"), longer) << name;
    EXPECT_EQ(FieldIdOf(name.substr(1)), FieldId::kOther) << name;
    std::string other = name;
    other.back() = '~';
    EXPECT_EQ(FieldIdOf(other), longer) << other;
  }
}

TEST(FieldIdTest, FamiliesOfNamesAreFoundByPrefix) {
  for (const char* name :
       {"Recourse-Event", "recourse-outcome", "RECOURSE-X", "Recourse-Key-Digest", "recourse-abc",
        "recourse-abcde", "recourse-abcdefghijklmnopqrstuvw"}) {
    EXPECT_EQ(FieldIdOf(name), FieldId::kRecourseOwn) << name;
  }
  for (const char* name : {"X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto",
                           "X-Forwarded-Client-Cert", "x-forwarded-p"}) {
    EXPECT_EQ(FieldIdOf(name), FieldId::kForwarded) << name;
  }
  for (const char* name : {"recourse-", "recourse", "x-forwarded-", "x-forwardedfor", "a", ""}) {
    EXPECT_EQ(FieldIdOf(name), FieldId::kOther) << name;
  }
}

}  // namespace
}  // namespace recourse::connection_head_test
