// Response heads (corpus 4-R, F4-F21). Every head is read whole and in every prefix.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/net/head_cases.h"

namespace recourse::response_head_test {
namespace {

using namespace std::string_literals;

const std::string kBad = std::to_string(FactsOf(ErrorCode::kBackendProtocol).http_status);

void ExpectVerdict(const std::string& verdict, const std::vector<std::string>& heads) {
  for (const std::string& head : heads) {
    EXPECT_EQ(ResponseVerdict(head), verdict) << head.substr(0, 200);
  }
}

std::unique_ptr<Head> Good(const std::string& bytes, std::string_view method = "GET") {
  auto head = std::make_unique<Head>();
  const ParseResult result = ParseResponseHead(bytes, method, *head);
  EXPECT_EQ(result.state, ParseState::kComplete) << bytes << ": " << result.error.detail();
  return head;
}

TEST(ResponseHeadRules, AnOrdinaryAnswerIsReadIntoViews) {
  const std::string bytes =
      "HTTP/1.1 201 Created so\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
      "Keep-Alive: timeout=5, max=100\r\nConnection: keep-alive\r\nSet-Cookie: a\r\n"
      "Set-Cookie: b\r\nContent-Encoding: gzip\r\n\r\n{}";
  EXPECT_EQ(ResponseVerdict(bytes), "ok");
  const auto head = Good(bytes);
  EXPECT_EQ(head->status, 201);
  EXPECT_EQ(head->reason, "Created so");
  EXPECT_EQ(head->minor, 1);
  EXPECT_EQ(head->body, BodyKind::kLength);
  EXPECT_EQ(head->content_length, 2U);
  EXPECT_EQ(FieldNamed(*head, "Content-Type").value, "application/json");
  EXPECT_EQ(FieldNamed(*head, "Content-Encoding").value, "gzip");
  EXPECT_EQ(head->keep_alive_timeout_s, 5);
  EXPECT_TRUE(head->keep_alive);
  EXPECT_TRUE(FieldNamed(*head, "Keep-Alive").hop);
  EXPECT_FALSE(FieldNamed(*head, "Set-Cookie").hop);
  EXPECT_EQ(bytes.substr(head->size), "{}");
}

TEST(ResponseHeadRules, EveryErrorIsTheBackends) {
  Head head;
  const ParseResult result = ParseResponseHead("HTTP/2 200", "GET", head);
  EXPECT_EQ(result.state, ParseState::kBad);
  EXPECT_EQ(result.error.code(), ErrorCode::kBackendProtocol);
}

TEST(ResponseHeadRules, R11_ContentLengthWithTransferEncodingIsRefused) {
  ExpectVerdict(kBad, {Reply("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
                       Reply("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n"),
                       Reply("Transfer-Encoding: gzip\r\nContent-Length: 3\r\n")});
}

TEST(ResponseHeadRules, F19_R12_TransferEncodingMustBeExactlyChunked) {
  ExpectVerdict(kBad,
                {Reply("Transfer-Encoding: xchunked\r\n"), Reply("Transfer-Encoding: gzip\r\n"),
                 Reply("Transfer-Encoding:\r\n"), Reply("Transfer-Encoding: gzip, chunked\r\n"),
                 Reply("Transfer-Encoding: chunked, chunked\r\n"),
                 Reply("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                 Reply("Transfer-Encoding: identity\r\n")});
  const std::string good = Reply("Transfer-Encoding: Chunked\r\n");
  ExpectVerdict("ok", {good});
  EXPECT_EQ(Good(good)->body, BodyKind::kChunked);
}

TEST(ResponseHeadRules, F04_TransferEncodingInHttp10IsRefused) {
  ExpectVerdict(kBad, {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"});
}

TEST(ResponseHeadRules, F05_EqualContentLengthsCollapse) {
  for (const char* lines :
       {"Content-Length: 3\r\nContent-Length: 3\r\n", "Content-Length: 3, 3\r\n",
        "Content-Length: 3,3 ,3\r\nContent-Length: 3\r\n"}) {
    const std::string bytes = Reply(lines);
    EXPECT_EQ(ResponseVerdict(bytes), "ok") << lines;
    EXPECT_EQ(Good(bytes)->content_length, 3U);
  }
  ExpectVerdict(
      kBad, {Reply("Content-Length: 3\r\nContent-Length: 4\r\n"), Reply("Content-Length: 3, 4\r\n"),
             Reply("Content-Length: 3,\r\n"), Reply("Content-Length: ,3\r\n"),
             Reply("Content-Length: 4\r\nContent-Length: 4, 5\r\n")});
}

TEST(ResponseHeadRules, F06_ContentLengthIsPlainDigits) {
  for (const char* value : {"+3", "-1", "0x3", "", "03", "3 3", "12345678901234567890"}) {
    ExpectVerdict(kBad, {Reply("Content-Length: "s + value + "\r\n")});
  }
}

TEST(ResponseHeadRules, F07_F08_F09_R18_LineSyntaxIsStrict) {
  ExpectVerdict(kBad, {Reply("X : a\r\n"), Reply("X: a\r\n b\r\n"), Reply(" X: a\r\n"),
                       Reply("X: a\rb\r\n"), Reply("X: a\0\r\n"s), Reply("X: a\x7f\r\n"),
                       Reply(": a\r\n"), Reply("X\r\n"), "HTTP/1.1 200 OK\nX: a\n\n",
                       "HTTP/1.1 200 OK\r\nX: a\n\r\n", "HTTP/1.1 200 O\rK\r\n\r\n",
                       "HTTP/1.1 200 O\x01\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n"});
  ExpectVerdict("ok",
                {Reply("X_Y: a\r\n"), Reply("X: caf\xe9\r\n"), "HTTP/1.1 200 caf\xe9\r\n\r\n"});
}

TEST(ResponseHeadRules, F18_R07_WithoutFramingTheBodyEndsWithTheConnection) {
  const std::string bytes = Reply("Content-Type: text/plain\r\n");
  EXPECT_EQ(Good(bytes)->body, BodyKind::kUntilClose);
  EXPECT_FALSE(Good(bytes)->keep_alive);
}

TEST(ResponseHeadRules, F20_R15_TheSpaceBeforeTheReasonMustBeThere) {
  for (const std::string start : {"HTTP/1.1 200 \r\n", "HTTP/1.1 200\r\n"}) {
    ExpectVerdict("ok", {start + "Content-Length: 0\r\n\r\n"});
    EXPECT_EQ(Good(start + "\r\n")->status, 200);
    EXPECT_EQ(Good(start + "\r\n")->reason, "");
  }
  ExpectVerdict(kBad, {"HTTP/1.1 20\r\n\r\n", "HTTP/1.1 200\n\n", "HTTP/1.1 200\rX\r\n\r\n"});
}

TEST(ResponseHeadRules, F21_R13_R14_StatusIsThreeDigitsFrom100) {
  for (const char* status : {"99", "099", "2000", "abc", "000", "20", "+20", " 200", "2 0"}) {
    ExpectVerdict(kBad, {"HTTP/1.1 "s + status + " X\r\n\r\n"});
  }
  for (const char* status : {"100", "101", "103", "200", "299", "418", "599", "600", "999"}) {
    ExpectVerdict("ok", {"HTTP/1.1 "s + status + " X\r\n\r\n"});
  }
}

TEST(ResponseHeadRules, R01_R02_R04_R05_SomeAnswersHaveNoBody) {
  for (const int status : {100, 101, 103, 204, 304}) {
    const std::string start = "HTTP/1.1 " + std::to_string(status) + " X\r\n";
    EXPECT_EQ(Good(start + "\r\n")->body, BodyKind::kNone) << status;
    EXPECT_TRUE(Good(start + "\r\n")->keep_alive) << status;
    const auto announced = Good(start + "Content-Length: 5\r\n\r\n");
    EXPECT_EQ(announced->body, BodyKind::kNone) << status;
    EXPECT_TRUE(announced->has_content_length);
    // 304 announces what a 200 would have brought; the others may have bytes behind them.
    EXPECT_EQ(announced->keep_alive, status == 304) << status;
    EXPECT_EQ(Good(start + "Transfer-Encoding: chunked\r\n\r\n")->keep_alive, status == 304);
    EXPECT_TRUE(Good(start + "Content-Length: 0\r\n\r\n")->keep_alive) << status;
  }
  const auto to_head = Good(Reply("Content-Length: 5\r\n"), "HEAD");
  EXPECT_EQ(to_head->body, BodyKind::kNone);
  EXPECT_EQ(to_head->content_length, 5U);
  EXPECT_TRUE(to_head->keep_alive);
  EXPECT_EQ(Good(Reply(""), "HEAD")->body, BodyKind::kNone);
  EXPECT_EQ(Good(Reply("Content-Length: 5\r\n"), "head")->body, BodyKind::kLength);
}

TEST(ResponseHeadRules, R16_Http10IsReadButNotKept) {
  const std::string bytes =
      "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n";
  ExpectVerdict("ok", {bytes});
  EXPECT_EQ(Good(bytes)->minor, 0);
  EXPECT_EQ(Good(bytes)->body, BodyKind::kLength);
  EXPECT_FALSE(Good(bytes)->keep_alive);
}

TEST(ResponseHeadRules, R17_OtherProtocolsAreRefusedInTheirFirstBytes) {
  ExpectVerdict(kBad,
                {"HTTP/2 200\r\n", "HTTP/2.0 200 OK\r\n", "HTTP/1.2 200 OK\r\n",
                 "SSH-2.0-OpenSSH_9.2\r\n", "\x15\x03\x01", "ICY 200 OK\r\n", "http/1.1 200 OK\r\n",
                 "HTTP/1.1  200 OK\r\n", "HTTP/1.1\t200 OK\r\n", "\0\0\x12\x04"s, "200 OK\r\n"});
}

TEST(ResponseHeadRules, R29_ConnectionIsHonoured) {
  const std::string bytes =
      Reply("Content-Length: 0\r\nConnection: close, x-a\r\nX-A: 1\r\nX-B: 1\r\n");
  EXPECT_FALSE(Good(bytes)->keep_alive);
  EXPECT_TRUE(FieldNamed(*Good(bytes), "X-A").hop);
  EXPECT_FALSE(FieldNamed(*Good(bytes), "X-B").hop);
  ExpectVerdict("ok", {Reply("Connection: \"odd\"\r\n")});
}

TEST(ResponseHeadRules, R21_R23_NamesThatBackendsMayNotUseAreKnown) {
  const std::string bytes =
      Reply("Idempotent-Replayed: true\r\nRecourse-Event: 1\r\nX-Accel-Redirect: /x\r\n");
  const auto head = Good(bytes);
  EXPECT_EQ(FieldNamed(*head, "Idempotent-Replayed").id, FieldId::kRecourseOwn);
  EXPECT_EQ(FieldNamed(*head, "Recourse-Event").id, FieldId::kRecourseOwn);
  EXPECT_EQ(FieldNamed(*head, "X-Accel-Redirect").id, FieldId::kAccelRedirect);
}

TEST(ResponseHeadRules, R31_HeadLinesAndFieldsAreBounded) {
  std::string many;
  for (std::size_t i = 0; i < limits::kFieldsMax; ++i) many += "a: b\r\n";
  ExpectVerdict("ok", {Reply(many)});
  std::string large;
  for (int i = 0; i < 40; ++i) large += "X: " + std::string(1000, 'v') + "\r\n";
  ExpectVerdict(kBad, {Reply(many + "a: b\r\n"), Reply(large),
                       Reply("X: " + std::string(limits::kHeaderLineBytesMax, 'v') + "\r\n"),
                       "HTTP/1.1 200 " + std::string(100'000, 'r')});
}

TEST(ResponseHeadRules, KeepAliveTimeoutsAreReadWhenTheyMakeSense) {
  const std::vector<std::pair<std::string, int>> table = {{"timeout=5", 5},
                                                          {"max=3, timeout=72", 72},
                                                          {"Timeout=5,max=1", 5},
                                                          {"timeout=0", 0},
                                                          {"timeout=99999999", 86'400},
                                                          {"timeout=999999999999", 86'400},
                                                          {"timeout=-5", -1},
                                                          {"timeout=", -1},
                                                          {"timeout", -1},
                                                          {"timeout=5s", -1},
                                                          {"", -1},
                                                          {"max=5", -1},
                                                          {"xtimeout=5", -1}};
  for (const auto& [value, seconds] : table) {
    const std::string bytes = Reply("Keep-Alive: " + value + "\r\n");
    EXPECT_EQ(Good(bytes)->keep_alive_timeout_s, seconds) << value;
  }
}

}  // namespace
}  // namespace recourse::response_head_test
