// Several backends behind one host and port: who serves a path, and what the loader refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/explain/explain.h"
#include "policy/model/host_cache.h"
#include "policy/model/host_table.h"
#include "policy/model/route_table.h"
#include "tests/policy/policy_builder.h"

namespace recourse::shared_host_test {
namespace {

using ::testing::HasSubstr;

// "name", "name!" for its endpoint, "name?" for what may be taken for that one's endpoint.
std::string TextOf(const EndpointPlace& place) {
  if (place.backend == nullptr) return "-";
  if (place.where == EndpointPath::kExact) return place.backend->name + '!';
  if (place.where == EndpointPath::kAmbiguous) return place.endpoint_of->name + '?';
  return place.backend->name;
}

std::string PlaceOf(const Policy& policy, std::string_view authority, std::string_view path) {
  return TextOf(policy.routes->Place(authority, 80, path));
}

struct Row {
  const char* path;
  const char* expected;
};

void ExpectPlaces(const Policy& policy, std::string_view authority, std::vector<Row> rows) {
  for (const Row& row : rows) {
    EXPECT_EQ(PlaceOf(policy, authority, row.path), row.expected) << authority << row.path;
  }
}

constexpr const char* kShop = R"(
backends:
  rest: { url: "http://shop:8080" }
  a: { url: "http://shop:8080/mcp/a", protocol: mcp, hosts: [ here ] }
  b: { url: "http://shop:8080/mcp/b", protocol: mcp }
)";

TEST(HostMemoTest, WhateverWasAskedBeforeTheAnswerIsThatOfTheTable) {
  const auto policy = LoadGood(R"(
backends:
  rest: { url: "http://shop:8080", hosts: [ rest, "other:443" ] }
  a: { url: "http://shop:8080/mcp/a", protocol: mcp, hosts: [ here ] }
  other: { url: "http://other:80" }
)");
  struct Question {
    std::string authority;
    std::uint16_t default_port;
    std::string path;
  };
  std::vector<Question> questions;
  for (const char* authority :
       {"shop:8080", "SHOP:8080", "rest", "rest:1", "here", "other", "no"}) {
    for (const std::uint16_t port : {std::uint16_t{80}, std::uint16_t{443}}) {
      for (const char* path : {"/orders", "/mcp/a", "/mcp/a/"}) {
        questions.push_back({authority, port, path});
      }
    }
  }
  HostCache memo(*policy->routes);
  const auto expect_same = [&](const Question& one) {
    EXPECT_EQ(TextOf(memo.Place(one.authority, one.default_port, one.path)),
              TextOf(policy->routes->Place(one.authority, one.default_port, one.path)))
        << one.authority << one.path << " on " << one.default_port;
  };
  for (const Question& first : questions) {
    for (const Question& second : questions) {
      expect_same(first);
      expect_same(second);
    }
  }
  EXPECT_EQ(TextOf(memo.Place("other", 80, "/")), "other");
  EXPECT_EQ(TextOf(memo.Place("other", 443, "/")), "rest");
}

TEST(SharedHostTest, EndpointsAreFoundByTheirVeryPathAndTheRestIsThePlainBackends) {
  const auto policy = LoadGood(kShop);
  ExpectPlaces(*policy, "shop:8080",
               {{"/mcp/a", "a!"},
                {"/mcp/b", "b!"},
                {"/", "rest"},
                {"/orders/7", "rest"},
                {"/mcp", "rest"},
                {"/mcp/a/x", "rest"},
                {"/.well-known/oauth-protected-resource/mcp/a", "rest"},
                {"/mcp/a/", "a?"},
                {"/MCP/B", "b?"},
                {"/mcp/%61", "a?"},
                {"/mcp/b.json", "b?"},
                {"/mcp./b", "b?"},
                {"//mcp/a", "a?"},
                {"/mcp%2fa", "a?"},
                {"/x/../mcp/a", "a?"}});
}

TEST(SharedHostTest, ANameThatLeavesAnEndpointOutIsNoWayAroundIt) {
  const auto policy = LoadGood(kShop);
  ExpectPlaces(*policy, "here", {{"/mcp/a", "a!"}, {"/mcp/b", "b?"}, {"/orders", "a"}});
  const auto behind = LoadGood(R"(
backends:
  rest: { url: "http://shop:8080/mcp" }
  a: { url: "http://shop:8080/mcp/a", protocol: mcp }
)");
  ExpectPlaces(*behind, "shop:8080",
               {{"/a", "a?"}, {"/A/", "a?"}, {"/mcp/a", "a!"}, {"/b", "rest"}});
}

TEST(SharedHostTest, WithoutAPlainBackendPathsGoToTheNearestEndpoint) {
  const auto policy = LoadGood(R"(
backends:
  a: { url: "http://a/mcp/a", protocol: mcp, hosts: [ here ] }
  b: { url: "http://b/mcp/b/", protocol: mcp, hosts: [ here ] }
  deep: { url: "http://c/mcp/a/deep", protocol: mcp, hosts: [ here ] }
)");
  ExpectPlaces(*policy, "here",
               {{"/mcp/a", "a!"},
                {"/mcp/b/", "b!"},
                {"/mcp/b", "b?"},
                {"/mcp/b/x", "b"},
                {"/mcp/a/x", "a"},
                {"/mcp/a/deep", "deep!"},
                {"/mcp/a/deep/x/y", "deep"},
                {"/mcp/ab", "a"},
                {"/mcp/bx", "a"},
                {"/", "a"},
                {"/.well-known/oauth-protected-resource", "a"},
                {"/.well-known/oauth-protected-resource/mcp/b", "b"},
                {"/.well-known/oauth-protected-resource/mcp/a/deep", "deep"}});
}

TEST(SharedHostTest, AnEndpointAtTheRootLeavesTheOtherPaths) {
  const auto policy = LoadGood(R"(
backends:
  root: { url: "http://shop", protocol: mcp }
  rest: { url: "http://shop" }
)");
  ExpectPlaces(*policy, "shop", {{"/", "root!"}, {"/orders", "rest"}});
}

TEST(SharedHostTest, UnlistedWritesBesideAnEndpointAreDeniedAtPlainBackendsToo) {
  const auto policy = LoadGood(std::string(kShop) + R"(
tools:
  order: { match: POST rest /orders, effect: write, reason: r }
)");
  const auto of = [&](const char* method, const char* path) {
    std::string scratch;
    const auto match = policy->routes->Match(policy->backends[0], method, path, scratch);
    return match->tool != nullptr ? match->tool->name
                                  : std::to_string(static_cast<int>(match->unlisted));
  };
  const auto word = [](UnlistedRule rule) { return std::to_string(static_cast<int>(rule)); };
  EXPECT_EQ(of("POST", "/orders"), "order");
  EXPECT_EQ(of("POST", "/messages"), word(UnlistedRule::kDeny));
  EXPECT_EQ(of("GET", "/messages"), word(UnlistedRule::kPass));
}

TEST(SharedHostTest, ExplainSaysWhoServesIt) {
  const auto policy = LoadGood(std::string(kShop) + R"(
tools:
  a.make: { match: tools/call a make, effect: write, reason: r }
)");
  const auto of = [&](const char* text, const char* body = "") {
    ExplainedCall call;
    EXPECT_TRUE(ParseCall(text, call)) << text;
    call.body = body;
    return Explain(*policy, call);
  };
  const auto named = of("POST http://shop:8080/mcp/a",
                        R"({"method":"tools/call","params":{"name":"make","arguments":{}}})");
  EXPECT_EQ(named.backend->name, "a");
  EXPECT_EQ(named.tool, policy->FindTool("a.make"));
  EXPECT_EQ(of("GET http://shop:8080/orders").backend->name, "rest");
  EXPECT_EQ(of("GET rest /mcp/b").backend->name, "b");
  EXPECT_EQ(of("POST rest /mcp/B").refused, "ambiguous-path");
  const auto beside = of("POST rest /messages");
  EXPECT_EQ(beside.refused, "denied");
  EXPECT_THAT(beside.reason, HasSubstr("another door"));
}

TEST(SharedHostTest, WhatCannotBeToldApartIsRefusedAtItsPlace) {
  struct Bad {
    const char* second;
    const char* problem;
  };
  const std::string first =
      "version: 1\nbackends:\n"
      "  a: { url: \"https://t/mcp/a\", protocol: mcp, hosts: [ h ], intercept: true }\n";
  for (const Bad& bad : {
           Bad{"b: { url: \"https://t/mcp/a\", protocol: mcp, intercept: true }",
               "has the same authority t:443 as backend a, and its endpoint /mcp/a is that one's "
               "/mcp/a or may be taken for it; one endpoint is one backend"},
           Bad{"b: { url: \"https://t/MCP/a/\", protocol: mcp, intercept: true }",
               "may be taken for it"},
           Bad{"b: { url: \"https://t/mcp/a.json\", protocol: mcp, intercept: true }",
               "may be taken for it"},
           Bad{"b: { url: \"https://t/mcp/b\", protocol: mcp }",
               "only one of them has `intercept: true`"},
           Bad{"b: { url: \"http://u/\", hosts: [ h ] }", "only one of them has `intercept: true`"},
           Bad{"b: { url: \"http://t:443/\" }", "differs in the scheme in its url"},
           Bad{"b: { url: \"https://t\", intercept: true, tls: { ca_file: /x } }",
               "differs in the `tls`"},
           Bad{"b: { url: \"https://t\", intercept: true, addresses: [ 10.0.0.0/8 ] }",
               "differs in the `addresses`"},
       }) {
    const auto loaded = LoadPolicyText("p.yaml", first + "  " + bad.second + '\n');
    EXPECT_FALSE(loaded.ok()) << bad.second;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr("p.yaml:4:3: error: backends.b: ")) << bad.second;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(bad.problem)) << bad.second;
  }
}

TEST(SharedHostTest, ToolsAndUndosThatAnEndpointTakesAreRefused) {
  struct Bad {
    const char* tool;
    const char* problem;
  };
  for (const Bad& bad : {
           Bad{"{ match: POST rest /mcp/a, effect: read }",
               "/mcp/a is the endpoint of MCP server a"},
           Bad{"{ match: GET a /health, effect: read }",
               "/health is not served by a: beside the endpoints of that server it is rest's"},
           Bad{"{ match: POST rest /x, effect: write, undo: { request: \"POST /mcp/a\" } }",
               "this path is the endpoint of a"},
           Bad{"{ match: POST rest /x, effect: write, undo: { request: \"POST /mcp/{body#/id}\" } "
               "}",
               "or may become it"},
       }) {
    const auto loaded = LoadPolicyText(
        "p.yaml", "version: 1" + std::string(kShop) + "tools:\n  t: " + bad.tool + '\n');
    EXPECT_FALSE(loaded.ok()) << bad.tool;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr("p.yaml:7:")) << bad.tool;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(bad.problem)) << bad.tool;
  }
}

}  // namespace
}  // namespace recourse::shared_host_test
