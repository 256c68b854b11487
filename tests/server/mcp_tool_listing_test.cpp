// The client of `recourse policy import mcp` against scripted servers.
#include "proxy/cli/policy/mcp_tool_listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"

namespace recourse::mcp_tools_test {
namespace {

using ::testing::HasSubstr;

// Answers each request by its JSON-RPC method; remembers them all.
class Script {
 public:
  using Answers = std::function<HttpResponse(const std::string& method, const Json& message)>;
  explicit Script(Answers answers) : answers_(std::move(answers)) {}

  std::expected<McpServerInfo, std::string> Run(const Headers& headers = {}) {
    return AskForMcpTools(
        "/mcp", headers,
        [this](const HttpRequest& request,
               const IsEnough& is_enough) -> std::expected<HttpResponse, std::string> {
          requests.push_back(request);
          const auto message = ParseJson(request.body.empty() ? "{}" : request.body);
          EXPECT_TRUE(message) << request.body;
          const Json* const method = message->Find("method");
          HttpResponse answer = answers_(method == nullptr ? "" : method->text, *message);
          HttpResponse so_far{answer.status, "", answer.headers, ""};
          for (const char c : answer.body) {
            so_far.body.push_back(c);
            if (is_enough(so_far)) return so_far;
          }
          return answer;
        });
  }
  std::vector<HttpRequest> requests;

 private:
  const Answers answers_;
};

HttpResponse Result(const Json& message, const std::string& result) {
  return {200,
          "",
          {{"Content-Type", "application/json"}},
          R"({"jsonrpc":"2.0","id":)" + ScalarText(*message.Find("id")) + ",\"result\":" + result +
              "}"};
}
HttpResponse Status(int status, Headers headers = {}) { return {status, "", headers, "no"}; }

std::string FieldOf(const HttpRequest& request, std::string_view name) {
  const std::string* value = FindHeader(request.headers, name);
  return value == nullptr ? "" : *value;
}

TEST(McpToolsTest, AModernServerIsAskedWithoutASession) {
  Script script([](const std::string& method, const Json& message) {
    if (method == "server/discover") {
      return Result(message, R"({"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"shop"}}})");
    }
    return Result(message, R"({"tools":[{"name":"a"}]})");
  });
  const auto server = script.Run({{"Authorization", "Bearer x"}});
  ASSERT_TRUE(server) << server.error();
  EXPECT_EQ(server->name, "shop");
  EXPECT_EQ(server->protocol, "2026-07-28");
  ASSERT_EQ(server->tools.size(), 1u);
  ASSERT_EQ(script.requests.size(), 2u);
  for (const HttpRequest& request : script.requests) {
    EXPECT_EQ(FieldOf(request, "MCP-Protocol-Version"), "2026-07-28");
    EXPECT_EQ(FieldOf(request, "Authorization"), "Bearer x");
    EXPECT_EQ(FieldOf(request, "Accept"), "application/json, text/event-stream");
    EXPECT_THAT(request.body,
                HasSubstr(R"("io.modelcontextprotocol/protocolVersion":"2026-07-28")"));
  }
  EXPECT_EQ(FieldOf(script.requests[1], "Mcp-Method"), "tools/list");
}

TEST(McpToolsTest, ALegacyServerIsGivenASessionThatIsEnded) {
  Script script([](const std::string& method, const Json& message) {
    if (method == "server/discover") return Status(400);
    if (method == "initialize") {
      HttpResponse answer =
          Result(message, R"({"protocolVersion":"2025-06-18","serverInfo":{"name":"old"}})");
      answer.headers.emplace_back("Mcp-Session-Id", "s1");
      return answer;
    }
    if (method != "tools/list") return Status(202);
    // Other messages first, and a stream that goes on.
    HttpResponse answer = Result(message, R"({"tools":[{"name":"a"}]})");
    answer.headers = {{"content-type", "text/event-stream; charset=utf-8"}};
    answer.body =
        "id: 1\ndata:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"
        "data: " +
        answer.body + "\n\n: more and more";
    return answer;
  });
  const auto server = script.Run();
  ASSERT_TRUE(server) << server.error();
  EXPECT_EQ(server->name, "old");
  EXPECT_EQ(server->protocol, "2025-06-18");
  EXPECT_EQ(server->tools.at(0).name, "a");
  ASSERT_EQ(script.requests.size(), 5u);
  EXPECT_EQ(FieldOf(script.requests[1], "MCP-Protocol-Version"), "");
  EXPECT_THAT(script.requests[2].body, HasSubstr("notifications/initialized"));
  EXPECT_EQ(FieldOf(script.requests[3], "Mcp-Session-Id"), "s1");
  EXPECT_EQ(FieldOf(script.requests[3], "MCP-Protocol-Version"), "2025-06-18");
  EXPECT_EQ(script.requests[4].method, "DELETE");
  EXPECT_EQ(FieldOf(script.requests[4], "Mcp-Session-Id"), "s1");
}

// A server whose every page of tools names `next` as the one that follows.
Script Pages(std::function<std::string(int)> next) {
  return Script([next, page = 0](const std::string& method, const Json& message) mutable {
    if (method == "server/discover") return Result(message, "{}");
    ++page;
    return Result(message, R"({"tools":[{"name":"t)" + std::to_string(page) +
                               R"("}],"nextCursor":")" + next(page) + "\"}");
  });
}

TEST(McpToolsTest, PagesAreFollowedUpToABound) {
  auto three =
      Pages([](int page) { return page == 3 ? std::string() : "c" + std::to_string(page); });
  EXPECT_EQ(three.Run()->tools.size(), 3u);
  EXPECT_THAT(three.requests.at(2).body, HasSubstr(R"("cursor":"c1")"));
  auto circle = Pages([](int) { return std::string("same"); });
  EXPECT_THAT(circle.Run()->notes.back(), HasSubstr("goes in a circle"));
  auto endless = Pages([](int page) { return "c" + std::to_string(page); });
  const auto server = endless.Run();
  EXPECT_EQ(server->tools.size(), static_cast<std::size_t>(limits::kImportedPagesMax));
  EXPECT_THAT(server->notes.back(), HasSubstr("more than 100 pages"));
}

TEST(McpToolsTest, WhatIsNoListOfToolsIsAnErrorThatSaysWhy) {
  const auto told = [](const Script::Answers& answers) {
    const auto server = Script(answers).Run();
    return server ? std::string("no error") : server.error();
  };
  EXPECT_THAT(told([](const auto&, const auto&) { return Status(404); }),
              HasSubstr("is there an MCP server (Streamable HTTP) at this url? initialize was "
                        "answered 404 no"));
  EXPECT_THAT(told([](const auto&, const auto&) { return Status(401); }),
              HasSubstr("server/discover was answered 401: the server wants credentials"));
  EXPECT_THAT(told([](const auto&, const auto&) {
                return Status(307, {{"Location", "http://m/mcp/\x1b[2J"}});
              }),
              HasSubstr("(go to http://m/mcp/ [2J); give the url that it names"));
  EXPECT_THAT(told([](const auto& method, const Json& message) {
                if (method == "server/discover") return Result(message, "{}");
                return HttpResponse{
                    200, "", {}, R"({"id":2,"error":{"code":-32601,"message":"no tools"}})"};
              }),
              HasSubstr("tools/list was answered 200 no tools"));
  EXPECT_THAT(told([](const auto&, const Json& message) { return Result(message, "{}"); }),
              HasSubstr("has no list of tools"));
}

TEST(McpToolsTest, TheAnswerToAnotherRequestIsNone) {
  Script script([](const std::string&, const Json&) {
    return HttpResponse{200, "", {}, R"({"jsonrpc":"2.0","id":99,"result":{"tools":[]}})"};
  });
  EXPECT_FALSE(script.Run());
}

}  // namespace
}  // namespace recourse::mcp_tools_test
