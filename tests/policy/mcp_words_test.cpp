// `protocol: mcp` in the policy: names and globs, calls as undo and settle, the endpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/language/loader.h"
#include "policy/model/endpoint.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "tests/policy/policy_builder.h"

namespace recourse::mcp_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kBackends = R"(
backends:
  files: { url: "http://files:3000/mcp", protocol: mcp }
  shop: { url: "http://shop" }
)";

std::string With(const std::string& tools) {
  return std::string("version: 1") + kBackends + "tools:\n" + tools;
}

// A write tool of the MCP server, with a read that may be called to settle it.
std::string WithWrite(const std::string& words) {
  return With(
      "  orders.get: { match: tools/call files get_order, effect: read }\n"
      "  orders.create:\n    match: tools/call files create_order\n    effect: write\n"
      "    identity: body#/ref\n" +
      words);
}

void ExpectProblem(const std::string& yaml, const std::string& problem) {
  const auto loaded = LoadPolicyText("p.yaml", yaml);
  EXPECT_FALSE(loaded.ok()) << yaml;
  EXPECT_THAT(ProblemsOf(loaded), HasSubstr(problem)) << yaml;
}

std::string ToolFor(const Policy& policy, std::string_view name) {
  const Tool* tool = policy.routes->FindCalledTool(policy.backends[0], name);
  return tool == nullptr ? "none" : tool->name;
}

TEST(McpWordsTest, TheExactNameComesBeforeGlobsAndOfThemTheLongest) {
  const auto policy = LoadGood(std::string(kBackends) + R"(
tools:
  reads: { match: [ "tools/call files read_*", "tools/call files *_list" ], effect: read }
  secrets: { match: "tools/call files read_secret_*", effect: write, reason: r }
  one: { match: tools/call files read_secret_name, effect: read }
  all: { match: "tools/call files *", effect: write, reason: r }
)");
  EXPECT_EQ(ToolFor(*policy, "read_file"), "reads");
  EXPECT_EQ(ToolFor(*policy, "orders_list"), "reads");
  EXPECT_EQ(ToolFor(*policy, "read_secret_key"), "secrets");
  EXPECT_EQ(ToolFor(*policy, "read_secret_name"), "one");
  EXPECT_EQ(ToolFor(*policy, "READ_file"), "all");
  EXPECT_EQ(ToolFor(*policy, ""), "all");
  EXPECT_EQ(policy->routes->FindCalledTool(policy->backends[1], "read_file"), nullptr);
  EXPECT_EQ(policy->tools[0].mcp_names, (std::vector<std::string>{"read_*", "*_list"}));
  EXPECT_TRUE(policy->tools[0].patterns.empty());
  EXPECT_TRUE(policy->tools[0].methods.empty());
}

TEST(McpWordsTest, AGlobHasStarsForAnyCharacters) {
  const std::vector<std::tuple<std::string, std::string, bool>> rows = {
      {"*", "", true},         {"*", "a/b.c", true},
      {"a*", "a", true},       {"a*", "ba", false},
      {"*a", "ba", true},      {"a*c", "abbc", true},
      {"a*c", "abcd", false},  {"*x*", "axb", true},
      {"*x*", "ab", false},    {"a*b*c", "aXbXbXc", true},
      {"a*b*c", "acb", false}, {"a*a", "a", false},
      {"*ab", "aab", true},    {"get_*_by_*", "get_a_b_by_c", true},
  };
  for (const auto& [glob, name, matches] : rows) {
    EXPECT_EQ(MatchesMcpGlob(glob, name), matches) << glob << ' ' << name;
  }
}

TEST(McpWordsTest, WhetherTwoGlobsOverlapIsKnownExactly) {
  const std::vector<std::tuple<std::string, std::string, bool>> rows = {
      {"read_*", "*_list", true}, {"read_*", "red_*", false}, {"*_a", "*_b", false},
      {"a*b", "ab*", true},       {"a*", "ab*", true},        {"*x*", "*y*", true},
      {"a*x", "a*yx", true},      {"a*", "b", false},         {"a*", "ab", true},
      {"ab", "ab", true},         {"*ab", "*b", true},        {"*ab", "*cb", false},
  };
  for (const auto& [a, b, overlap] : rows) {
    EXPECT_EQ(McpNamesOverlap(a, b), overlap) << a << ' ' << b;
    EXPECT_EQ(McpNamesOverlap(b, a), overlap) << b << ' ' << a;
  }
}

TEST(McpWordsTest, AMatchNamesToolsOfOneMcpServer) {
  const auto read = [](const std::string& match) {
    return With("  t: { match: " + match + ", effect: read }\n");
  };
  ExpectProblem(read("tools/call shop get_order"),
                "p.yaml:6:15: error: tools.t.match: backend shop is no MCP server; give it "
                "`protocol: mcp`");
  ExpectProblem(read("tools/call flies get_order"), "no backend is called 'flies', did you mean");
  ExpectProblem(read("\"tools/call files a b\""), "accepted: \"METHOD backend /path\"");
  ExpectProblem(read("\"tools/call files get:order\""), "has letters, digits, '_', '-', '.' and");
  ExpectProblem(read("\"tools/call files get_{id}\""), "has letters, digits, '_', '-', '.' and");
  ExpectProblem(read("\"tools/call files a**\""), "one star is enough");
  ExpectProblem(read("\"tools/call files a*b*c*d*e*\""), "at most 4 stars");
  ExpectProblem(read("tools/call files " + std::string(129, 'a')), "1 to 128 characters");
  ExpectProblem(read("tools/list files get"), "'tools/list' is no list of methods");
  ExpectProblem(read("[ tools/call files get, GET files /health ]"),
                "p.yaml:6:39: error: tools.t.match[1]: all matches of a tool have one backend, and "
                "paths and names do not go together");
  ExpectProblem(read("[ GET files /health, tools/call files get ]"), "do not go together");
  ExpectProblem(read("POST files /mcp"), "/mcp is the endpoint of MCP server files");
  ExpectProblem(read("POST files /MCP/"), "is the endpoint of MCP server files");
  LoadGood(std::string(kBackends) + "tools: { t: { match: GET files /health, effect: read } }\n");
}

TEST(McpWordsTest, NamesThatTwoToolsClaimAreAmbiguous) {
  const auto two = [](const std::string& a, const std::string& b) {
    return With("  one: { match: \"tools/call files " + a + "\", effect: read }\n" +
                "  two: { match: \"tools/call files " + b + "\", effect: read }\n");
  };
  ExpectProblem(two("get", "get"),
                "p.yaml:7:17: error: tools.two.match: get is ambiguous: tool "
                "one matches the same calls");
  ExpectProblem(two("get_*", "*_get"), "tool one has get_*, which is as long and matches some of");
  ExpectProblem(With("  t: { match: [ tools/call files a, tools/call files a ], effect: read }\n"),
                "a is given twice");
  const auto good = [&](const std::string& a, const std::string& b) {
    return ProblemsOf(LoadPolicyText("p.yaml", two(a, b)));
  };
  EXPECT_THAT(good("get", "Get"), Not(HasSubstr("error")));
  EXPECT_THAT(good("get_*", "put_*"), Not(HasSubstr("error")));
  EXPECT_THAT(good("get_*", "get_a*"), Not(HasSubstr("error")));
  std::string many = "  t:\n    effect: read\n    match:\n";
  for (int i = 0; i <= 256; ++i)
    many += "    - tools/call files a" + std::to_string(1000 + i) + "*\n";
  ExpectProblem(With(many), "more than 256 globs of one backend");
}

TEST(McpWordsTest, AnUndoIsACallOfTheSameServer) {
  const auto policy = LoadGood(std::string(kBackends) + R"(
tools:
  create:
    match: tools/call files create_order
    effect: write
    identity: body#/ref
    on_error: not_executed
    undo:
      call: cancel_order
      arguments: { id: "{external_ref}", n: 7, deep: { why: "undo of {key}" } }
      headers: { Authorization: "{header.Authorization}" }
      done_when: answer.body#/canceled == true
    settle: { call: find_order, arguments: { ref: "{body#/ref}" }, happened: "answer.body#/id" }
  find: { match: tools/call files find_order, effect: read }
)");
  const Tool& tool = policy->tools[0];
  EXPECT_EQ(tool.on_error, OnError::kNotExecuted);
  EXPECT_EQ(tool.external_ref->text, "answer.body#/id");
  EXPECT_EQ(
      tool.undo->request.source,
      R"(tools/call cancel_order {"id":"{external_ref}","n":7,"deep":{"why":"undo of {key}"}})");
  EXPECT_EQ(tool.undo->request.calls, "cancel_order");
  const Headers headers = {{"Authorization", "Bearer x"}};
  CallValues values;
  values.headers = &headers;
  values.key = "abc";
  values.external_ref = "o-1\"";
  const auto undo = Render(tool.undo->request, values);
  ASSERT_TRUE(undo) << undo.error().detail();
  EXPECT_EQ(undo->method, "POST");
  EXPECT_EQ(undo->target, "/mcp");
  EXPECT_EQ(undo->body,
            R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"cancel_order",)"
            R"("arguments":{"id":"o-1\"","n":7,"deep":{"why":"undo of abc"}}}})");
  EXPECT_EQ(undo->headers, (Headers{{"Authorization", "Bearer x"},
                                    {"Content-Type", "application/json"},
                                    {"Accept", "application/json, text/event-stream"}}));
  const auto body = ParseJson(R"({"ref":12})");
  values.body = &*body;
  const auto settle = Render(tool.settle->request, values);
  ASSERT_TRUE(settle) << settle.error().detail();
  EXPECT_THAT(settle->body, HasSubstr(R"("arguments":{"ref":12})"));
}

TEST(McpWordsTest, WhatIsAroundArgumentsAndResultsIsNoPlace) {
  const auto problems = [](const std::string& words) {
    return ProblemsOf(LoadPolicyText("p.yaml", WithWrite(words)));
  };
  EXPECT_THAT(problems("    external_ref: answer.body#/structuredContent/id\n    reason: r\n"),
              HasSubstr("warning: tools.orders.create.external_ref: "
                        "answer.body#/structuredContent/id will hardly ever match"));
  EXPECT_THAT(problems("    reason: r\n    settle: { call: get_order, arguments: { ref: "
                       "\"{body#/params/arguments/ref}\" }, happened: answer.body#/id }\n"),
              HasSubstr("settle: body#/params/arguments/ref will hardly ever match"));
  EXPECT_THAT(problems("    external_ref: answer.body#/content/id\n    reason: r\n"),
              Not(HasSubstr("hardly")));
}

TEST(McpWordsTest, ACallWithoutArgumentsHasAnEmptyObject) {
  const auto policy = LoadGood(
      "backends: { m: { url: \"http://m/mcp/\", protocol: mcp } }\n"
      "tools:\n  t: { match: tools/call m add, effect: write, undo: { call: reset } }\n");
  const auto undo = Render(policy->tools[0].undo->request, CallValues{});
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->target, "/mcp/");
  EXPECT_THAT(undo->body, HasSubstr(R"("arguments":{})"));
}

TEST(McpWordsTest, WordsOfHttpAreRefused) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"    undo: { request: \"DELETE /o/{external_ref}\" }\n",
       "undo.request: is for tools that are matched by a path; name a tool of the same MCP server"},
      {"    undo: { call: cancel, request: \"DELETE /o\" }\n",
       "undo.request: is for tools that are matched by a path"},
      {"    undo: { done: 2xx }\n", "undo.call: is missing"},
      {"    undo: { call: cancel, done: 404 }\n",
       "undo.done: an MCP server answers a call without a status"},
      {"    undo: { call: cancel, json: { a: 1 } }\n", "undo.json: the body of a `call` is its"},
      {"    undo: { call: \"cancel_*\" }\n", "undo.call: one tool is called; a glob names several"},
      {"    undo: { call: \"a b\" }\n", "undo.call: the name of an MCP tool has letters"},
      {"    undo: { call: cancel, arguments: [ 1 ] }\n", "a map of the tool's arguments"},
      {"    undo: { call: cancel, arguments: { a: \"{path.id}\" } }\n",
       "path.id: a call by name has no path and no query"},
      {"    undo: { call: cancel, arguments: { a: \"{header.Authorization}\" } }\n",
       "header.Authorization carries credentials"},
      {"    undo: { call: cancel, headers: { Mcp-Session-Id: \"x\" } }\n",
       "Mcp-Session-Id of an MCP call is set by Recourse"},
      {"    undo: { call: cancel, headers: { Accept: \"x\" } }\n", "Accept of an MCP call is set"},
      {"    undo: { call: get_order }\n", "tool orders.get, a read, which takes nothing back"},
      {"    reason: r\n    external_ref: query.id\n", "query.id: a call by name has no"},
      {"    reason: r\n    redact: query.id\n", "query.id: a call by name has no"},
      {"    approval: { by: a, answer: 409 }\n", "approval.answer: is a status"},
      {"    approval: { by: a, when: query.q == 1 }\n", "query.q: a call by name has no"},
      {"    reason: r\n    on_error: never\n", "on_error: not one of its values"},
      {"    reason: r\n    upgrade: websocket\n", "upgrade: is for paths"},
      {"    reason: r\n    answer: stream\n", "answer: is for paths"},
      {"    reason: r\n    settle: { call: create_order, happened: answer.body#/id }\n",
       "settle.call: create_order is tool orders.create, a write"},
      {"    reason: r\n    settle: { call: see, happened: answer.body#/id }\n",
       "settle.call: no tool of this policy is tools/call files see; list it with `effect: read`"},
      {"    reason: r\n    settle: { call: get_order, happened: answer.body#/id, arguments: { id: "
       "\"{external_ref}\" } }\n",
       "{external_ref} comes from the answer"},
  };
  for (const auto& [words, problem] : rows) ExpectProblem(WithWrite(words), problem);
}

TEST(McpWordsTest, WordsOfMcpAreRefusedForPaths) {
  const auto http = [](const std::string& words) {
    return With("  t:\n    match: POST shop /o\n    effect: write\n    identity: body#/ref\n" +
                words);
  };
  ExpectProblem(http("    undo: { call: cancel }\n"),
                "undo.call: is for tools of an MCP server (match: tools/call ..)");
  ExpectProblem(http("    reason: r\n    on_error: unknown\n"),
                "on_error: says what errors of an MCP or a GraphQL server prove");
  ExpectProblem(With("  t:\n    match: POST files /upload\n    effect: write\n"
                     "    undo: { request: \"POST /mcp\", json: { a: 1 } }\n"),
                "undo: this path is the endpoint of files");
}

TEST(McpWordsTest, AnUndoThatNeedsApprovalItselfIsRefused) {
  const auto with = [](const std::string& words) {
    return WithWrite("    undo: { call: cancel_order }\n") +
           "  cancel: { match: \"tools/call files cancel_*\", effect: write, " + words + " }\n";
  };
  ExpectProblem(with("approval: { by: a }"), "tool cancel, which needs approval; an undo runs");
  for (const char* words : {"reason: r", "undo: { call: uncancel }"}) {
    EXPECT_THAT(ProblemsOf(LoadPolicyText("p.yaml", with(words))), Not(HasSubstr("error")));
  }
}

TEST(McpWordsTest, WhatTakesAnEffectBackIsSaidAsACallOfATool) {
  ExpectProblem(WithWrite(""),
                "undo: { call: cancel_order, arguments: { id: \"{external_ref}\" } }");
  const std::string text =
      ProblemsOf(LoadPolicyText("p.yaml", WithWrite("    undo: { call: cancl }\n")));
  EXPECT_THAT(text, HasSubstr("warning: tools.orders.create.undo.call: no tool of this policy is "
                              "tools/call files cancl"));
  EXPECT_THAT(text, Not(HasSubstr("error")));
}

TEST(McpWordsTest, WarningsOfWritesHoldForMcpTools) {
  const std::string text = ProblemsOf(LoadPolicyText(
      "p.yaml", With("  reads: { match: \"tools/call files *_order\", effect: read }\n"
                     "  create: { match: tools/call files create_order, effect: write, reason: r "
                     "}\n")));
  EXPECT_THAT(text, HasSubstr("tools.create.identity: is not given, so all arguments are the key"));
  EXPECT_THAT(text, HasSubstr("tools.create.settle: is not given and the backend has no"));
  EXPECT_THAT(text, HasSubstr("tools.create.match: the read reads covers create_order too"));
  EXPECT_THAT(text, Not(HasSubstr("not spoken")));
  ExpectProblem(With("  t: { match: tools/call files create, effect: write }\n"),
                "a write needs one of these: undo");
}

TEST(McpEndpointTest, OnlyTheVeryPathIsTheEndpoint) {
  const auto at = [](const std::string& url, const std::string& path) {
    const auto policy = LoadGood("backends: { m: { url: \"" + url + "\", protocol: mcp } }\n");
    return EndpointPathOf(policy->backends[0], path);
  };
  for (const std::string url : {"http://m/mcp", "http://m/mcp/"}) {
    const bool has_slash = url.ends_with('/');
    EXPECT_EQ(at(url, has_slash ? "/mcp/" : "/mcp"), EndpointPath::kExact);
    EXPECT_EQ(at(url, has_slash ? "/mcp" : "/mcp/"), EndpointPath::kAmbiguous) << url;
    for (const char* path : {"/MCP", "/%6dcp", "/mcp.", "/mcp%20", "/mcp.json", "/Mcp/", "/mcp./",
                             "//mcp", "/a/../mcp", "/mcp;x", "/%2Fmcp"}) {
      EXPECT_EQ(at(url, path), EndpointPath::kAmbiguous) << url << ' ' << path;
    }
    for (const char* path : {"/", "/mcp/x", "/mcpx", "/x/mcp", "/messages"}) {
      EXPECT_EQ(at(url, path), EndpointPath::kOther) << url << ' ' << path;
    }
  }
  EXPECT_EQ(at("http://m", "/"), EndpointPath::kExact);
  EXPECT_EQ(at("http://m/", "/x"), EndpointPath::kOther);
}

TEST(McpEndpointTest, OtherDoorsOfAnMcpServerAreShutToWrites) {
  const auto policy = LoadGood(std::string("unlisted: { writes: pass }") + kBackends +
                               "tools: { up: { match: POST files /upload, effect: write, reason: "
                               "r } }\n");
  std::string scratch;
  const auto rule = [&](const Backend& backend, const char* method, const char* path) {
    const auto match = policy->routes->Match(backend, method, path, scratch);
    return match ? match->unlisted : UnlistedRule::kGuard;
  };
  const Backend& files = policy->backends[0];
  EXPECT_EQ(rule(files, "POST", "/messages"), UnlistedRule::kDeny);
  EXPECT_EQ(rule(files, "GET", "/.well-known/oauth-protected-resource"), UnlistedRule::kPass);
  EXPECT_EQ(rule(policy->backends[1], "POST", "/messages"), UnlistedRule::kPass);
  EXPECT_EQ(policy->routes->Match(files, "POST", "/upload", scratch)->tool, &policy->tools[0]);
}

}  // namespace
}  // namespace recourse::mcp_words_test
