// One call of an MCP server over a connection: JSON or a stream, cut or whole, with or without a
// session.
#include "filters/mcp/mcp_upstream.h"

#include <gtest/gtest.h>

#include "filters/call/codecs.h"
#include "filters/mcp/mcp_codec.h"
#include "filters/mcp/mcp_request.h"
#include "proxy/base/limits.h"
#include "tests/support/scripted_upstream.h"
#include "tests/support/seeded_random.h"

namespace recourse::mcp_upstream_test {
namespace {

constexpr std::string_view kCall =
    R"({"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"pay","arguments":{"a":1}}})";

struct Heard final : InterimSink {
  Task<void> Pass(std::string_view event) override {
    all += event;
    co_return;
  }
  std::string all;
};

class McpUpstreamTest : public ::testing::Test {
 protected:
  McpUpstreamTest() : plain(loop), random(1), upstream(plain, loop.timer(), loop.clock(), random) {
    backend.name = "pay";
    backend.protocol = Protocol::kMcp;
    backend.endpoint = "/mcp";
  }

  Result<Answer> Ask(HttpRequest request, bool is_own = false, std::size_t bytes_max = 10'000) {
    return loop.Run(Exchange(std::move(request), is_own, bytes_max));
  }
  static HttpRequest Legacy() {
    return {"POST",
            "/mcp",
            {{"Content-Type", "application/json"},
             {"Authorization", "Bearer x"},
             {"Idempotency-Key", "k1"},
             {"Mcp-Session-Id", "s1"},
             {"MCP-Protocol-Version", "2025-06-18"}},
            std::string(kCall)};
  }

  TestLoop loop;
  ScriptedUpstream plain;
  SeededRandom random;
  CodecUpstream upstream;
  Backend backend;
  Heard heard;

 private:
  Task<Result<Answer>> Exchange(HttpRequest request, bool is_own, std::size_t bytes_max) {
    const auto connection = upstream.Open(backend);
    (void)co_await connection->Connected();
    connection->PassInterimTo(&heard);
    if (is_own) connection->MayOpenSession();
    co_return co_await connection->Exchange(request, loop.now() + Millis(60'000), bytes_max);
  }
};

Step Stream(std::string body, bool complete = true) {
  Step step = Respond(200, std::move(body), {{"Content-Type", "text/event-stream; charset=utf-8"}});
  step.answer.body_complete = complete;
  return step;
}
std::string Done(std::string_view id) {
  return R"({"result":{"content":[]},"jsonrpc":"2.0","id":)" + std::string(id) + "}";
}
std::string IdOf(const HttpRequest& request) {
  const auto read = ReadMcpRequest(request.headers, request.body);
  return read && !read->empty() ? read->front().id : std::string();
}

TEST_F(McpUpstreamTest, JsonIsGivenWithoutItsId) {
  plain.otherwise = Respond(200, Done("7"), {{"ETag", "x"}});
  const auto answer = Ask(Legacy());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, MessageKind::kResult);
  EXPECT_TRUE(answer->codec);
  EXPECT_EQ(answer->response.body, R"({"jsonrpc":"2.0","result":{"content":[]}})");
  EXPECT_EQ(*FindHeader(answer->response.headers, "Content-Type"), "application/json");
  EXPECT_EQ(FindHeader(answer->response.headers, "ETag"), nullptr);
  EXPECT_EQ(plain.writes.at(0).request.body, kCall) << "the agent's own bytes";
  EXPECT_EQ(*FindHeader(plain.writes[0].request.headers, "Accept-Encoding"), "identity");
}

TEST_F(McpUpstreamTest, AStreamEndsAtTheAnswerAndWhatCameBeforeIsPassedOn) {
  const std::string before =
      "id: 0\ndata:\n\n: hi\n\nid: 1\ndata: "
      "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"
      "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n";
  plain.otherwise = Stream(before + "data: " + Done("7") + "\n\ndata: {\"late\":1}\n\n");
  const auto answer = Ask(Legacy());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, MessageKind::kResult);
  EXPECT_TRUE(answer->body_complete);
  EXPECT_EQ(heard.all, before);
}

TEST_F(McpUpstreamTest, WhatEndsWithoutAMessageIsUnknown) {
  for (const Step& step :
       {Stream("data: {}\n\n"), Stream("data: " + Done("8") + "\n\n"), Stream("data: " + Done("7")),
        Respond(202, ""), Respond(200, ""), Respond(200, Done("8")), Respond(200, "{}"),
        Respond(204, ""), Respond(200, Done("7") + "x")}) {
    plain.otherwise = step;
    const auto answer = Ask(Legacy());
    ASSERT_FALSE(answer) << step.answer.response.body;
    EXPECT_EQ(answer.error().delivery(), Delivery::kUncertain);
    EXPECT_FALSE(answer.error().detail().empty());
  }
  Step cut = Respond(200, Done("7").substr(0, 20));
  cut.answer.body_complete = false;
  plain.otherwise = cut;
  EXPECT_EQ(Ask(Legacy()).error().code(), ErrorCode::kBackendReset);
}

TEST_F(McpUpstreamTest, WhatIsNoMessageIsSaidToBeWhatItIs) {
  const auto told = [&](const Headers& fields) {
    plain.otherwise = Respond(200, "<p>hello</p>", fields);
    return std::string(Ask(Legacy()).error().detail());
  };
  EXPECT_EQ(told({{"Content-Type", "Text/HTML; charset=utf-8"}}),
            "the server answered with text/html, which is not the message that was asked for");
  EXPECT_EQ(told({{"Content-Type", "application/json"}}),
            "the server answered with JSON that is not the message that was asked for");
  EXPECT_EQ(told({{"Content-Type", "image/png"}}),
            "the server's answer is not the message that was asked for");
}

TEST_F(McpUpstreamTest, WhatCannotBeReadIsNotPassedOnAsIfItWereNoAnswer) {
  std::string many = "0";
  for (std::size_t i = 0; i < limits::kJsonNodesMax; ++i) many += ",0";
  const std::string answer =
      R"({"jsonrpc":"2.0","id":7,"result":{"content":[],"x":[)" + many + "]}}";
  plain.otherwise = Stream(": hi\n\ndata: " + answer + "\n\n");
  EXPECT_EQ(Ask(Legacy(), false, 1'000'000).error().delivery(), Delivery::kUncertain);
  EXPECT_EQ(heard.all, ": hi\n\n");
}

TEST_F(McpUpstreamTest, AnAnswerThatIsTooLargeIsUnknown) {
  plain.otherwise = Respond(200, Done("7") + std::string(100, ' '));
  EXPECT_EQ(Ask(Legacy(), false, 50).error().code(), ErrorCode::kBackendProtocol);
  const std::string large = R"({"id":7,"result":")" + std::string(200'000, 'x') + "\"}";
  plain.otherwise = Stream("data: " + large + "\n\n");
  EXPECT_EQ(Ask(Legacy(), false, 50).error().code(), ErrorCode::kBackendProtocol);
  EXPECT_TRUE(Ask(Legacy(), false, 300'000));
}

TEST_F(McpUpstreamTest, ARefusalOverHttpAloneComesAsItIs) {
  plain.otherwise =
      Respond(401, "who are you", {{"Content-Type", "text/plain"}, {"WWW-Authenticate", "Bearer"}});
  const auto answer = Ask(Legacy());
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->message);
  EXPECT_TRUE(answer->codec);
  EXPECT_EQ(answer->response.body, "who are you");
  EXPECT_NE(FindHeader(answer->response.headers, "WWW-Authenticate"), nullptr);
  EXPECT_EQ(plain.writes.size(), 1u) << "an agent's own session is the agent's";
}

TEST_F(McpUpstreamTest, OtherRequestsGoThroughUnchanged) {
  plain.otherwise = Respond(202, "ok");
  HttpRequest request = Legacy();
  request.target = "/register";
  auto answer = Ask(request);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->codec);
  EXPECT_EQ(answer->response.body, "ok");
  backend.protocol = Protocol::kHttp;
  answer = Ask(Legacy());
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->codec);
}

TEST_F(McpUpstreamTest, ACutStreamIsTakenUpAgainWhereItWasCut) {
  plain.otherwise =
      Stream("retry: 20\nid: e1\ndata:\n\nid: e2\ndata: {\"m\":1}\n\nid: e3\nda", false);
  int gets = 0;
  plain.probe = [&](const HttpRequest& get) {
    EXPECT_EQ(*FindHeader(get.headers, "Last-Event-ID"), ++gets == 1 ? "e2" : "e4");
    EXPECT_EQ(*FindHeader(get.headers, "Mcp-Session-Id"), "s1");
    EXPECT_EQ(*FindHeader(get.headers, "Authorization"), "Bearer x");
    EXPECT_EQ(FindHeader(get.headers, "Idempotency-Key"), nullptr);
    if (gets == 1) return Stream("id: e4\ndata: {\"m\":2}\n\n");
    return Stream("data: " + Done("7") + "\n\n");
  };
  const MonoTime began = loop.now();
  const auto answer = Ask(Legacy());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, MessageKind::kResult);
  EXPECT_EQ(gets, 2);
  EXPECT_EQ(loop.now() - began, Millis(40)) << "as the server asked";
  EXPECT_EQ(plain.writes.size(), 1u) << "the call itself went out once";
  EXPECT_EQ(heard.all.find("e3"), std::string::npos);
}

TEST_F(McpUpstreamTest, WithoutAnEventIdOrASessionNothingIsTakenUp) {
  plain.otherwise = Stream("data: {}\n\n", false);
  EXPECT_FALSE(Ask(Legacy()));
  plain.otherwise = Stream("id: e1\ndata: {}\n\n", false);
  HttpRequest request = Legacy();
  RemoveHeader(request.headers, "Mcp-Session-Id");
  EXPECT_FALSE(Ask(request));
  EXPECT_TRUE(plain.probes.empty());
}

TEST_F(McpUpstreamTest, TakingUpEndsWithTheDeadlineOrTheServersNo) {
  plain.otherwise = Stream("id: e1\ndata: {}\n\n", false);
  plain.probe = [](const HttpRequest&) { return Respond(405, ""); };
  EXPECT_EQ(Ask(Legacy()).error().code(), ErrorCode::kBackendReset);
  EXPECT_EQ(plain.probes.size(), 1u);
  plain.probe = [](const HttpRequest&) { return CutAfterSend(); };
  EXPECT_EQ(Ask(Legacy()).error().code(), ErrorCode::kBackendReset);
  EXPECT_EQ(plain.probes.size(), 1u + 32u) << "bounded";
  plain.otherwise = Stream("retry: 100000\nid: e1\ndata: {}\n\n", false);
  plain.probes.clear();
  EXPECT_EQ(Ask(Legacy()).error().code(), ErrorCode::kBackendTimeout);
  EXPECT_EQ(plain.probes.size(), 1u) << "at most half a minute apart";
}

TEST_F(McpUpstreamTest, ACallOfOurOwnHasAnIdOfItsOwn) {
  plain.decide = [](const HttpRequest& request) { return Respond(200, Done(IdOf(request))); };
  const auto answer = Ask(Legacy(), true);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, MessageKind::kResult);
  EXPECT_TRUE(IdOf(plain.writes.at(0).request).starts_with("\"recourse-"));
  EXPECT_EQ(*FindHeader(plain.writes[0].request.headers, "Idempotency-Key"), "k1");
}

TEST_F(McpUpstreamTest, AModernCallOfOurOwnSaysWhatItsProtocolAsksFor) {
  plain.decide = [](const HttpRequest& request) { return Respond(200, Done(IdOf(request))); };
  HttpRequest request = Legacy();
  SetHeader(request.headers, "MCP-Protocol-Version", "2026-07-28");
  RemoveHeader(request.headers, "Mcp-Session-Id");
  request.body =
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"zurück","arguments":{}}})";
  ASSERT_TRUE(Ask(request, true));
  const HttpRequest& sent = plain.writes.at(0).request;
  EXPECT_EQ(*FindHeader(sent.headers, "Mcp-Method"), "tools/call");
  EXPECT_EQ(*FindHeader(sent.headers, "Mcp-Name"), "=?base64?enVyw7xjaw==?=");
  const auto body = ParseJson(sent.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(AtPointer(*body, "/params/_meta/io.modelcontextprotocol~1protocolVersion")->text,
            "2026-07-28");
  EXPECT_NE(AtPointer(*body, "/params/_meta/io.modelcontextprotocol~1clientCapabilities"), nullptr);
  EXPECT_TRUE(ReadMcpRequest(sent.headers, sent.body)) << "its fields agree with its body";
}

TEST_F(McpUpstreamTest, WhereTheSessionIsGoneOneOfOurOwnIsOpenedAndEnded) {
  std::vector<std::string> seen;
  plain.decide = [&](const HttpRequest& request) {
    const std::string* const session = FindHeader(request.headers, "Mcp-Session-Id");
    const auto read = ReadMcpRequest(request.headers, request.body);
    seen.push_back(request.method + " " + (read ? read->front().method : "") + " " +
                   (session == nullptr ? "-" : *session));
    if (read && read->front().method == "initialize") {
      return Respond(200,
                     R"({"jsonrpc":"2.0","id":)" + IdOf(request) +
                         R"(,"result":{"protocolVersion":"2025-03-26","capabilities":{}}})",
                     {{"Mcp-Session-Id", "s2"}});
    }
    if (session != nullptr && *session == "s1") {
      return Respond(
          404,
          R"({"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null})");
    }
    if (request.method == "DELETE") return Respond(405, "");
    if (IdOf(request).empty()) return Respond(202, "");
    EXPECT_EQ(*FindHeader(request.headers, "MCP-Protocol-Version"), "2025-03-26");
    EXPECT_EQ(*FindHeader(request.headers, "Idempotency-Key"), "k1");
    return Respond(200, Done(IdOf(request)));
  };
  const auto answer = Ask(Legacy(), true);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, MessageKind::kResult);
  EXPECT_EQ(seen, (std::vector<std::string>{"POST tools/call s1", "POST initialize -",
                                            "POST notifications/initialized s2",
                                            "POST tools/call s2", "DELETE  s2"}));
}

TEST_F(McpUpstreamTest, WithoutAnotherSessionNothingWasSent) {
  plain.decide = [](const HttpRequest& request) {
    return IdOf(request).empty() ? Respond(202, "") : Respond(404, "no");
  };
  const auto answer = Ask(Legacy(), true);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().delivery(), Delivery::kNotSent);
}

TEST_F(McpUpstreamTest, ARecordedAnswerIsReadTheSameWay) {
  Answer recorded;
  recorded.response = Stream("data: {\"m\":1}\n\ndata: " + Done("7") + "\n\n").answer.response;
  const auto answer = McpCodec().ReadRecorded(recorded, Legacy());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message, MessageKind::kResult);
  recorded.response.body = "data: {\"m\":1}\n\n";
  EXPECT_FALSE(McpCodec().ReadRecorded(recorded, Legacy()));
  recorded.response = Respond(200, Done("7")).answer.response;
  EXPECT_TRUE(McpCodec().ReadRecorded(recorded, Legacy())->message);
}

}  // namespace
}  // namespace recourse::mcp_upstream_test
