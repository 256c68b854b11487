// Framing, syntax and bounds of request heads (corpus 4-H, F1-F25). Every head is read
// whole and in every prefix.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/net/head_cases.h"

namespace recourse::request_head_test {
namespace {

using namespace std::string_literals;

using Table = std::vector<std::pair<std::string, std::string>>;  // field lines, verdict

void ExpectPosts(const Table& table) {
  for (const auto& [lines, verdict] : table) {
    EXPECT_EQ(RequestVerdict(Post(lines)), verdict) << lines;
  }
}

void ExpectHeads(const Table& table) {
  for (const auto& [head, verdict] : table) {
    EXPECT_EQ(RequestVerdict(head), verdict) << head.substr(0, 200);
  }
}

// Parses a head that must be good; `bytes` outlives the result.
std::unique_ptr<Head> Good(const std::string& bytes) {
  auto head = std::make_unique<Head>();
  const ParseResult result = ParseRequestHead(bytes, *head);
  EXPECT_EQ(result.state, ParseState::kComplete) << bytes << ": " << result.error.detail();
  return head;
}

std::string Repeat(std::string_view part, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += part;
  return text;
}

TEST(RequestHeadRules, AnOrdinaryHeadIsReadIntoViews) {
  const std::string bytes =
      "POST /orders?x=1&y=%20 HTTP/1.1\r\nHost: shop.svc:8080\r\nUser-Agent: curl/7.88.1\r\n"
      "Accept:*/*\r\nContent-Type: application/json \t\r\nContent-Length: 17\r\n"
      "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
      "Idempotency-Key: k-1\r\nRecourse-Intent:  i\r\nRecourse-Flow: f\r\nX-Empty:\r\n"
      "Content-Encoding: gzip\r\n\r\n{\"more\":\"bytes\"}";
  EXPECT_EQ(RequestVerdict(bytes), "ok");
  const auto head = Good(bytes);
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->target, "/orders?x=1&y=%20");
  EXPECT_EQ(head->path, head->target);
  EXPECT_EQ(head->form, TargetForm::kOrigin);
  EXPECT_EQ(head->minor, 1);
  EXPECT_EQ(head->field_count, 11U);
  EXPECT_EQ(bytes.substr(head->size), "{\"more\":\"bytes\"}");
  EXPECT_EQ(head->host, "shop.svc:8080");
  EXPECT_EQ(FieldNamed(*head, "Content-Type").value, "application/json");
  EXPECT_EQ(FieldNamed(*head, "Content-Encoding").value, "gzip");
  EXPECT_EQ(head->body, BodyKind::kLength);
  EXPECT_EQ(head->content_length, 17U);
  EXPECT_EQ(head->traceparent, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_EQ(FieldNamed(*head, "Idempotency-Key").value, "k-1");
  EXPECT_EQ(FieldNamed(*head, "Recourse-Intent").value, "i");
  EXPECT_EQ(FieldNamed(*head, "Recourse-Flow").value, "f");
  EXPECT_TRUE(head->keep_alive);
  EXPECT_FALSE(head->expect_continue);
  EXPECT_EQ(FieldNamed(*head, "Accept").value, "*/*");
  EXPECT_EQ(FieldNamed(*head, "X-Empty").value, "");
}

TEST(RequestHeadRules, F01_H01_H02_ContentLengthWithTransferEncodingIsRefused) {
  ExpectPosts({{"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "400"},
               {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "400"},
               {"Content-Length: 3\r\nTransfer-Encoding: gzip\r\n", "400"},
               {"Transfer-Encoding: identity\r\nContent-Length: 3\r\n", "400"},
               {"Transfer-Encoding:\r\nContent-Length: 3\r\n", "400"},
               {"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "400"}});
}

TEST(RequestHeadRules, F02_TransferEncodingMustBeExactlyChunked) {
  ExpectPosts({{"Transfer-Encoding: gzip\r\n", "501"},
               {"Transfer-Encoding: identity\r\n", "501"},
               {"Transfer-Encoding: xchunked\r\n", "501"},
               {"Transfer-Encoding: chunkedx\r\n", "501"},
               {"Transfer-Encoding: gzip, chunked\r\n", "400"},
               {"Transfer-Encoding: chunked, identity\r\n", "400"},
               {"Transfer-Encoding: identity, chunked\r\n", "400"},
               {"Transfer-Encoding: \r\n", "400"},
               {"Transfer-Encoding: chunked\r\n", "ok"}});
}

TEST(RequestHeadRules, F03_RepeatedQuotedOrDecoratedCodingsAreRefused) {
  ExpectPosts({{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400"},
               {"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "400"},
               {"Transfer-Encoding: chunked, chunked\r\n", "400"},
               {"Transfer-Encoding: ,chunked\r\n", "400"},
               {"Transfer-Encoding: chunked,\r\n", "400"},
               {"Transfer-Encoding: \"chunked\"\r\n", "400"},
               {"Transfer-Encoding: chunked;q=1\r\n", "400"},
               {"Transfer-Encoding: \xa0"
                "chunked\r\n",
                "400"},
               {"Transfer-Encoding: \x0b"
                "chunked\r\n",
                "400"},
               {"Transfer-Encoding: chun ked\r\n", "400"}});
}

TEST(RequestHeadRules, H20_ChunkedIsReadInAnyCaseAndWithBlanksAround) {
  for (const char* value : {"\tchunked", "CHUNKED", " Chunked \t", "chunked"}) {
    const std::string bytes = Post("Transfer-Encoding:"s + value + "\r\n");
    EXPECT_EQ(RequestVerdict(bytes), "ok");
    EXPECT_EQ(Good(bytes)->body, BodyKind::kChunked);
  }
}

TEST(RequestHeadRules, F04_TransferEncodingInHttp10IsRefused) {
  ExpectHeads({{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400"},
               {"POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\n", "ok"}});
}

TEST(RequestHeadRules, F05_H22_H23_ContentLengthMayNotRepeat) {
  ExpectPosts({{"Content-Length: 3\r\nContent-Length: 3\r\n", "400"},
               {"Content-Length: 3\r\nContent-Length: 0\r\n", "400"},
               {"Content-Length: 3\r\nX: y\r\ncontent-length: 3\r\n", "400"},
               {"Content-Length: 3, 3\r\n", "400"}});
}

TEST(RequestHeadRules, F06_H25_H26_H28_ContentLengthIsPlainDigits) {
  ExpectPosts({{"Content-Length: +3\r\n", "400"},
               {"Content-Length: -3\r\n", "400"},
               {"Content-Length: 0x3\r\n", "400"},
               {"Content-Length: 3 3\r\n", "400"},
               {"Content-Length:\r\n", "400"},
               {"Content-Length: 1_0\r\n", "400"},
               {"Content-Length: 03\r\n", "400"},
               {"Content-Length: 00\r\n", "400"},
               {"Content-Length: 3.0\r\n", "400"},
               {"Content-Length: 12345678901234567890\r\n", "400"},
               {"Content-Length: 0\r\n", "ok"},
               {"Content-Length:3 \r\n", "ok"}});
  const std::string bytes = Post("Content-Length: 9223372036854775807\r\n");
  EXPECT_EQ(Good(bytes)->content_length, 9223372036854775807U);
  const std::string longest = Post("Content-Length: 9999999999999999999\r\n");
  EXPECT_EQ(Good(longest)->content_length, 9999999999999999999U);
}

TEST(RequestHeadRules, F07_H29_H49_FieldNamesAreTokensUpToTheColon) {
  ExpectPosts({{"Content-Length : 3\r\n", "400"},
               {"Content-Length\t: 3\r\n", "400"},
               {": empty\r\n", "400"},
               {"no colon\r\n", "400"},
               {"nocolon\r\n", "400"},
               {"X y: z\r\n", "400"},
               {"X\xc3\xa9: z\r\n", "400"},
               {"X\"y: z\r\n", "400"},
               {"Content_Length: 3\r\n", "400"},
               {"transfer_encoding: chunked\r\n", "400"},
               {"Content.Length: 3\r\n", "400"},
               {"X-!#$%&'*+.^_`|~9: z\r\n", "ok"}});
  EXPECT_TRUE(Good(Post("X_Http_Method_Override: DELETE\r\n"))->has_odd_name);
  EXPECT_TRUE(Good(Post("X.Http.Method.Override: DELETE\r\n"))->has_odd_name);
  EXPECT_FALSE(Good(Post("X-Http-Method-Override: DELETE_\r\n"))->has_odd_name);
  ExpectHeads({{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", "400"},
               {"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", "400"}});
}

TEST(RequestHeadRules, F08_FoldedLinesAreRefused) {
  ExpectPosts({{"X: a\r\n b\r\n", "400"},
               {"X: a\r\n\tb\r\n", "400"},
               {"Transfer-Encoding:\r\n chunked\r\n", "400"},
               {"X: a\r\n \r\n", "400"}});
}

TEST(RequestHeadRules, F09_H46_H47_ControlCharactersAreRefused) {
  ExpectPosts({{"X: a\rb\r\n", "400"},
               {"X: a\r\r\n", "400"},
               {"X: a\0b\r\n"s, "400"},
               {"X\0: a\r\n"s, "400"},
               {"X: a\x7f\r\n", "400"},
               {"X: a\x01\r\n", "400"},
               {"X: a\x1b[0m\r\n", "400"},
               {"X: a\tb\r\n", "ok"},
               {"X: 0123456789abcdef0123456789abcde\x0c\r\n", "400"},
               {"X: \x0c"
                "0123456789abcdef0123456789abcdef\r\n",
                "400"}});
  ExpectHeads({{"GET / HTTP/1.1\r\nHost: a\r\n\rX", "400"}, {"\rGET / HTTP/1.1\r\n", "400"}});
}

TEST(RequestHeadRules, F10_BareLineFeedsAreRefusedAtOnce) {
  ExpectHeads({{"GET / HTTP/1.1\n", "400"},
               {"GET / HTTP/1.1\nHost: a\n\n", "400"},
               {"GET / HTTP/1.1\r\nHost: a\n", "400"},
               {"GET / HTTP/1.1\r\nHost: a\r\n\n", "400"},
               {"\nGET / HTTP/1.1\r\n", "400"},
               {"GET / HTTP/1.1\r\n\nHost: a\r\n", "400"}});
}

TEST(RequestHeadRules, F14_FramingDoesNotDependOnTheMethod) {
  for (const char* method : {"GET", "HEAD", "DELETE", "OPTIONS", "PURGE"}) {
    const std::string bytes =
        std::string(method) + " / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
    EXPECT_EQ(Good(bytes)->body, BodyKind::kLength) << method;
    EXPECT_EQ(Good(bytes)->content_length, 2U) << method;
  }
}

TEST(RequestHeadRules, F15_WithoutFramingThereIsNoBody) {
  const std::string bytes = Post("") + "GET /next HTTP/1.1\r\n";
  const auto head = Good(bytes);
  EXPECT_EQ(head->body, BodyKind::kNone);
  EXPECT_EQ(bytes.substr(head->size), "GET /next HTTP/1.1\r\n");
}

TEST(RequestHeadRules, F24_H73_OnlyTheFirstOfPipelinedRequestsIsLookedAt) {
  ExpectHeads(
      {{Post("") + "garbage\n", "ok"}, {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n" + Post(""), "400"}});
}

TEST(RequestHeadRules, F25_TwoEmptyLinesMayComeFirst) {
  ExpectHeads({{"\r\n" + Post(""), "ok"},
               {"\r\n\r\n" + Post(""), "ok"},
               {"\r\n\r\n\r\n" + Post(""), "400"}});
  const std::string bytes = "\r\n\r\n" + Post("");
  EXPECT_EQ(Good(bytes)->size, bytes.size());
}

TEST(RequestHeadRules, H50_ObsTextIsOpaqueButNotInWhatWeInterpret) {
  ExpectPosts({{"X: caf\xe9\r\n", "ok"},
               {"Cookie: a=\xff\r\n", "ok"},
               {"User-Agent: \xc3\xa9\r\n", "ok"},
               {"Content-Type: text/\xe9\r\n", "400"},
               {"Idempotency-Key: \xc3\xa9\r\n", "400"},
               {"Recourse-Intent: \xc3\xa9\r\n", "400"},
               {"Authorization: Bearer \xff\r\n", "400"},
               {"traceparent: \xff\r\n", "400"},
               {"Content-Length: \xb3\r\n", "400"},
               {"Connection: clos\xe9\r\n", "400"},
               {"Content-Encoding: \xff\r\n", "400"},
               {"Expect: \xff\r\n", "400"}});
}

TEST(RequestHeadRules, H50_OneByteThatIsNotAsciiIsSeenWhereverItStands) {
  for (std::size_t size = 1; size <= 40; ++size) {
    for (std::size_t at = 0; at < size; ++at) {
      std::string value(size, 'a');
      value[at] = '\x80';
      const auto head = std::make_unique<Head>();
      EXPECT_EQ(ParseRequestHead(Post("Authorization: " + value + "\r\n"), *head).state,
                ParseState::kBad)
          << at << " of " << size;
    }
  }
}

TEST(RequestHeadRules, H52_H53_ThereIsOneValidHost) {
  ExpectHeads({{"GET / HTTP/1.1\r\n\r\n", "400"},
               {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "400"},
               {"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\nhOST: b\r\n\r\n", "400"},
               {"GET / HTTP/1.0\r\n\r\n", "ok"},
               {"GET / HTTP/1.0\r\nHost: a b\r\n\r\n", "400"},
               {"GET http://a/ HTTP/1.1\r\n\r\n", "400"}});
  for (const char* bad : {"",         "a, b",   "a b",       "u@a",
                          "a/b",      "a?b",    "a#b",       "a:",
                          "a:b",      "a:0",    "a:080",     "a:65536",
                          "a:8080:1", "a%2eb",  "a%62",      "\xc3\xa9.example",
                          "a..b",     ".a",     ".",         "[::1",
                          "::1",      "[::1]x", "[::1]:",    "[fe80::1%25eth0]",
                          "[v1.x]",   "[]",     "a_b",       "a\\b",
                          "a;b",      "\"a\"",  "[1.2.3.4]", "a:99999999999999999999",
                          ":80"}) {
    EXPECT_EQ(RequestVerdict("GET / HTTP/1.1\r\nHost: "s + bad + "\r\n\r\n"), "400") << bad;
  }
  for (const char* good : {"a", "A.Example", "a:80", "a.b-c.d9:65535", "127.0.0.1:19080", "[::1]",
                           "[2001:db8::1]:8080", "[::ffff:127.0.0.1]:1", "a.", "a.b.:80", "xn--e9a",
                           "orders.shop.svc.cluster.local:8080"}) {
    EXPECT_EQ(RequestVerdict("GET / HTTP/1.1\r\nHost: "s + good + "\r\n\r\n"), "ok") << good;
  }
  EXPECT_EQ(RequestVerdict("GET / HTTP/1.1\r\nHost: " + std::string(262, 'a') + "\r\n\r\n"), "400");
}

TEST(RequestHeadRules, H55_H56_TheTargetIsVisibleAscii) {
  for (const std::string& bad :
       {"/a b"s, "/a\tb"s, "/a\0b"s, "/a\x7f"s, "/a\xff"s, "/caf\xc3\xa9"s, "/a#b"s, "/a\\b"s,
        "/a<b>"s, "/a\"b"s, ""s, "a"s, "a/b"s, "?x"s, "//"s + std::string(1, '\x01')}) {
    EXPECT_EQ(RequestVerdict("GET " + bad + " HTTP/1.1\r\nHost: a\r\n\r\n"), "400") << bad;
  }
  for (const char* good :
       {"/", "//", "/a%20b", "/?q={a|b}^`", "/a;b=c", "/~!$&'()*+,=:@[]", "/%", "/%zz", "/a?b?c"}) {
    EXPECT_EQ(RequestVerdict("GET "s + good + " HTTP/1.1\r\nHost: a\r\n\r\n"), "ok") << good;
  }
}

TEST(RequestHeadRules, H58_H59_TheFormOfTheTargetIsRecognised) {
  struct Row {
    const char *method, *target;
    TargetForm form;
    const char *authority, *path;
  };
  const Row rows[] = {
      {"GET", "http://a:80/x?y", TargetForm::kAbsolute, "a:80", "/x?y"},
      {"GET", "HTTP://a", TargetForm::kAbsolute, "a", "/"},
      {"GET", "https://[::1]:1/", TargetForm::kAbsolute, "[::1]:1", "/"},
      {"CONNECT", "a:443", TargetForm::kAuthority, "a:443", ""},
      {"CONNECT", "[::1]:443", TargetForm::kAuthority, "[::1]:443", ""},
      {"OPTIONS", "*", TargetForm::kAsterisk, "", ""},
      {"OPTIONS", "/x", TargetForm::kOrigin, "", "/x"},
  };
  for (const Row& row : rows) {
    const std::string bytes =
        std::string(row.method) + " " + row.target + " HTTP/1.1\r\nHost: a\r\n\r\n";
    EXPECT_EQ(RequestVerdict(bytes), "ok");
    const auto head = Good(bytes);
    EXPECT_EQ(head->form, row.form) << row.target;
    EXPECT_EQ(head->authority, row.authority);
    EXPECT_EQ(head->path, row.path);
    EXPECT_EQ(head->target, row.target);
  }
  for (const char* bad : {"GET *",
                          "POST *",
                          "OPTIONS **",
                          "CONNECT a",
                          "CONNECT /",
                          "CONNECT a:443/",
                          "CONNECT *",
                          "CONNECT [::1]",
                          "CONNECT http://a/",
                          "GET a:80",
                          "GET ftp://a/",
                          "GET http:/a",
                          "GET http:a",
                          "GET http://",
                          "GET http:///x",
                          "GET http://u@a/",
                          "GET http://u:p@a/x",
                          "GET http://a?x",
                          "GET http://a:99999/",
                          "GET http://a%2f/",
                          "GET ://a/",
                          "PRI *",
                          "PROXY TCP4",
                          "GET javascript:1"}) {
    EXPECT_EQ(RequestVerdict(std::string(bad) + " HTTP/1.1\r\nHost: a\r\n\r\n"), "400") << bad;
  }
}

TEST(RequestHeadRules, H61_TheMethodIsAShortToken) {
  ExpectHeads({{"G=\":<>(e),[T];?\" / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {std::string(1024, 'G') + " / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {std::string(33, 'G') + " / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {std::string(32, 'G') + " / HTTP/1.1\r\nHost: a\r\n\r\n", "ok"},
               {" GET / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {"get / HTTP/1.1\r\nHost: a\r\n\r\n", "ok"}});
}

TEST(RequestHeadRules, H62_OnlyHttp10AndHttp11AreServed) {
  ExpectHeads({{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "505"},
               {"GET / HTTP/1.32\r\nHost: a\r\n\r\n", "505"},
               {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"},
               {"GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505"},
               {"GET / HTTP/3.1\r\n\r\n", "505"},
               {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
               {"GET / http/1.1\r\nHost: a\r\n\r\n", "400"},
               {"GET / HTTP/11\r\nHost: a\r\n\r\n", "400"},
               {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", "400"},
               {"GET / HTTP/1.10\r\nHost: a\r\n\r\n", "400"},
               {"GET /  HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
               {"GET / HTTP/1.x\r\nHost: a\r\n\r\n", "400"},
               {"GET /\r\n", "400"},
               {"GET / HTTP/1.0\r\nHost: a\r\n\r\n", "ok"}});
}

TEST(RequestHeadRules, H64_OtherProtocolsAreRefusedInTheirFirstBytes) {
  ExpectHeads({{"\x16\x03\x01", "400"},
               {"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", "400"},
               {"\r\n\r\n\0\r\nQUIT\n"s, "400"},
               {"SSH-2.0-OpenSSH_9.2\r\n", "400"},
               {"\x80\x2e\x01", "400"},
               {"EHLO x\r\n", "400"},
               {"{\"json\": 1}", "400"}});
}

TEST(RequestHeadRules, H67_UpgradeStaysOnThisHop) {
  const std::string bytes = Post("Upgrade: websocket\r\nConnection: Upgrade\r\n");
  const auto head = Good(bytes);
  EXPECT_TRUE(FieldNamed(*head, "Upgrade").hop);
}

TEST(RequestHeadRules, H68_OnlyOneExpectationIsKnown) {
  ExpectPosts({{"Expect: 100-continue\r\n", "ok"},
               {"Expect: 100-Continue\r\n", "ok"},
               {"Expect: 100-continue\r\nExpect: 100-continue\r\n", "400"},
               {"Expect: 200-maybe\r\n", "417"},
               {"Expect:\r\n", "417"}});
  const std::string expecting = Post("Expect: 100-continue\r\n");
  EXPECT_TRUE(Good(expecting)->expect_continue);
  for (const char* value : {"100-continue", "anything"}) {
    const std::string old = "POST / HTTP/1.0\r\nExpect: "s + value + "\r\n\r\n";
    EXPECT_EQ(RequestVerdict(old), "ok");
    EXPECT_FALSE(Good(old)->expect_continue);
  }
}

TEST(RequestHeadRules, H70_TheHeadItsLinesAndItsTargetAreBounded) {
  const std::string line = "X: " + std::string(limits::kHeaderLineBytesMax - 5, 'v') + "\r\n";
  ExpectPosts({{line, "ok"},
               {"Y" + line, "431"},
               {"X: " + std::string(100'000, 'v'), "431"},
               {std::string(100'000, 'n'), "431"},
               {"X:" + std::string(100'000, ' '), "431"},
               {Repeat("X: " + std::string(1000, 'v') + "\r\n", 40), "431"}});
  const std::string start = "GET /" + std::string(limits::kTargetBytesMax - 1, 't');
  const std::string rest = " HTTP/1.1\r\nHost: a\r\n\r\n";
  ExpectHeads({{start + rest, "ok"},
               {start + "t" + rest, "414"},
               {start + std::string(100'000, 't'), "414"}});
}

TEST(RequestHeadRules, H70_AHeadOfExactlyTheBoundIsRead) {
  const std::string small = Post("A: \r\nB: \r\nC: \r\n");
  const std::size_t room = limits::kHeadBytesMax - small.size();
  const std::string a(12'000, 'a');
  const std::string b(12'000, 'b');
  const std::string c(room - a.size() - b.size(), 'c');
  ExpectPosts({{"A: " + a + "\r\nB: " + b + "\r\nC: " + c + "\r\n", "ok"},
               {"A: " + a + "\r\nB: " + b + "\r\nC: " + c + "c\r\n", "431"}});
}

TEST(RequestHeadRules, H71_TheNumberOfFieldsIsBounded) {
  ExpectPosts({{Repeat("a:\r\n", limits::kFieldsMax - 1), "ok"},
               {Repeat("a:\r\n", limits::kFieldsMax), "431"},
               {Repeat("a:\r\n", 1'200), "431"}});
}

TEST(RequestHeadRules, M11_M13_M14_WhatWeInterpretMayNotRepeat) {
  for (const char* name : {"Idempotency-Key", "Recourse-Intent", "Recourse-Flow", "Authorization",
                           "Content-Type", "Content-Encoding", "traceparent"}) {
    const std::string once = name + ": a\r\n"s;
    ExpectPosts({{once, "ok"}, {once + once, "400"}, {once + "X: y\r\n" + once, "400"}});
  }
  ExpectPosts({{"Content-Type: application/json, text/plain\r\n", "400"},
               {"Content-Type: multipart/form-data; boundary=\"a,b\"\r\n", "ok"},
               {"Content-Type: multipart/form-data; boundary=\"a\\\",b\"\r\n", "ok"},
               {"Content-Type: a; b=\"c\", d\r\n", "400"},
               {"Cookie: a=1\r\nCookie: b=2\r\n", "ok"},
               {"tracestate: a=1\r\ntracestate: b=2\r\n", "ok"}});
}

TEST(RequestHeadRules, AnEmptyIdempotencyKeyIsThere) {
  const std::string bytes = Post("Idempotency-Key:\r\n");
  const auto head = Good(bytes);
  EXPECT_EQ(FieldNamed(*head, "Idempotency-Key").id, FieldId::kIdempotencyKey);
  EXPECT_EQ(FieldNamed(*head, "Idempotency-Key").value, "");
}

TEST(RequestHeadRules, WhichKnownFieldsThereAreIsKnown) {
  const std::string bytes = Post("Via: 1.1 a\r\nX-Other: b\r\nTE: trailers\r\nvia: 1.1 c\r\n");
  const auto head = Good(bytes);
  EXPECT_EQ(head->known, Bit(FieldId::kHost) | Bit(FieldId::kVia) | Bit(FieldId::kTe));
  EXPECT_TRUE(head->Has(FieldId::kVia));
  EXPECT_FALSE(head->Has(FieldId::kTraceparent));
}

TEST(RequestHeadRules, ABadHeadNeverKeepsTheConnection) {
  Head head;
  for (const char* bad : {"GET / HTTP/2.0\r\n", "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n"}) {
    EXPECT_EQ(ParseRequestHead(bad, head).state, ParseState::kBad);
    EXPECT_FALSE(head.keep_alive);
  }
}

TEST(RequestHeadRules, NothingOfAnEarlierHeadRemains) {
  Head head;
  const std::string first = Post(
      "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\nUpgrade: x\r\nIdempotency-Key: k\r\n"
      "Connection: close\r\nContent-Type: t\r\nRecourse-Intent: i\r\ntraceparent: t\r\n");
  ASSERT_EQ(ParseRequestHead(first, head).state, ParseState::kComplete);
  const std::string second = "GET / HTTP/1.0\r\n\r\n";
  ASSERT_EQ(ParseRequestHead(second, head).state, ParseState::kComplete);
  EXPECT_EQ(head.body, BodyKind::kNone);
  EXPECT_FALSE(head.expect_continue);
  EXPECT_TRUE(head.host.empty() && head.traceparent.empty());
  EXPECT_EQ(head.field_count, 0U);
  EXPECT_EQ(head.known, 0U);
}

}  // namespace
}  // namespace recourse::request_head_test
