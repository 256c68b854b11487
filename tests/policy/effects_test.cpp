// `x-effect` in OpenAPI descriptions and overlays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/import/openapi.h"
#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::effects_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kShop = R"(openapi: 3.0.3
info: { title: Shop, version: "1" }
servers: [ { url: "https://shop.example/v2" } ]
paths:
  /orders:
    post: { operationId: createOrder, summary: Places an order, responses: {} }
  /orders/{id}:
    get: { operationId: getOrder, responses: {} }
    delete: { operationId: cancelOrder, responses: {} }
)";

// The policy, or what is refused.
std::string Imported(const std::string& api, const std::vector<std::string>& overlays = {}) {
  std::vector<ApiFile> files;
  for (const std::string& overlay : overlays) files.push_back({"o.yaml", overlay});
  auto read = ReadOpenApi({"api.yaml", api}, std::move(files));
  if (!read) return read.error();
  auto policy = PolicyFromOpenApi("api.yaml", std::move(*read));
  if (!policy) return policy.error();
  const LoadedPolicy loaded = LoadPolicyText("p.yaml", *policy);
  EXPECT_TRUE(loaded.ok()) << *policy << ProblemsOf(loaded);
  return *policy;
}

// `facts` on the POST, by an overlay of two lines before them.
std::string WithFacts(const std::string& facts) {
  return Imported(kShop, {"overlay: 1.0.0\ninfo: { title: t, version: v }\nactions:\n"
                          "  - target: $.paths['/orders'].post\n    update:\n      x-effect:\n" +
                          facts});
}

TEST(EffectsTest, FactsOfAnOverlayAreTheTool) {
  const std::string policy = WithFacts(
      "        name: orders.create\n        effect: write\n        class: reversible\n"
      "        identity: [ body#/ref ]\n        key_at: header:Order-Key\n        key_lives: 1d\n"
      "        undo: { request: \"DELETE /orders/{external_ref}\", done: [ 2xx, 404 ], repeatable: "
      "true }\n");
  EXPECT_THAT(policy, HasSubstr("  # Places an order\n  orders.create:  # declared in o.yaml:7:9\n"
                                "    match: \"POST shop /orders\"\n    effect: write\n"
                                "    identity: [ body#/ref ]\n    key_at: \"header:Order-Key\"\n"
                                "    key_lives: 1d\n    undo:"));
  EXPECT_THAT(policy, Not(HasSubstr("createOrder")));
  EXPECT_THAT(policy, HasSubstr("  cancelOrder:\n"));
}

TEST(EffectsTest, FactsInTheDescriptionItselfCountToo) {
  std::string api = kShop;
  api.replace(api.find("summary: Places an order"), 24, "x-effect: { effect: read }");
  EXPECT_THAT(Imported(api), HasSubstr("  createOrder:  # declared in api.yaml:6:49\n"
                                       "    match: \"POST shop /orders\"\n    effect: read\n"));
}

TEST(EffectsTest, WhatIsWrongIsToldWhereItStands) {
  const auto refused = [](const std::string& facts) {
    return WithFacts("        " + facts + "\n");
  };
  EXPECT_THAT(
      refused("efect: write"),
      HasSubstr("o.yaml:7:9: error: paths./orders.post.x-effect.efect: unknown key, did you "
                "mean 'effect'?; accepted: effect, identity"));
  EXPECT_THAT(refused("{ effect: write, undo: { request: [] } }"),
              HasSubstr("o.yaml:7:43: error: tools.createOrder.undo.request: a text is accepted"));
  EXPECT_THAT(refused("{ effect: write, reason: r, repeat_if: answer.status }"),
              HasSubstr("createOrder"));
  EXPECT_THAT(refused("{ effect: often }"),
              HasSubstr("o.yaml:7:19: error: tools.createOrder.effect"));
  EXPECT_THAT(refused("{ effect: write, reason: r, deny: \"body#/amount >\" }"),
              HasSubstr("o.yaml:7:"));
  EXPECT_THAT(refused("{ effect: write, scope: global }"),
              HasSubstr("scope: is for the user of Recourse to say"));
  EXPECT_THAT(refused("{ effect: write, match: POST b /x }"), HasSubstr("is for the user"));
  EXPECT_THAT(refused("7"), HasSubstr("a map is accepted here"));
  EXPECT_THAT(
      refused("{ effect: read, class: reversible }"),
      HasSubstr("o.yaml:7:32: error: tools.createOrder.class: what is declared makes it read"));
  EXPECT_THAT(
      refused("{ effect: write, undo: { request: \"DELETE /o/{external_ref}\", credentials: "
              "{ Authorization: { file: /etc/passwd } } } }"),
      HasSubstr("an API's owner names no files"));
  EXPECT_THAT(refused("{ effect: write, undo: [ { request: \"DELETE /o/{external_ref}\", "
                      "credentials: { Authorization: { file: /etc/passwd } } } ] }"),
              HasSubstr("an API's owner names no files"));
}

TEST(EffectsTest, WhatIsMeantToBeOneIsNotPassedOver) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string api = kShop;
    api.replace(api.find(from), from.size(), to);
    return Imported(api);
  };
  EXPECT_THAT(
      with("summary: Places an order", "x-efect: { effect: read }"),
      HasSubstr("api.yaml:6:39: error: paths./orders.post.x-efect: unknown key, did you mean "
                "'x-effect'?"));
  EXPECT_THAT(with("  /orders:\n", "  /orders:\n    x-effect: { effect: read }\n"),
              HasSubstr("x-effect: belongs to one of the path's operations"));
}

TEST(EffectsTest, AWayBackThatNobodyDeclaresIsProposedOrUndecided) {
  EXPECT_THAT(
      WithFacts("        { effect: write }\n"),
      HasSubstr("undo: { request: \"DELETE /orders/{external_ref}\", done: [ 2xx, 404 ] }"));
  EXPECT_THAT(
      Imported(kShop, {"overlay: 1.0.0\ninfo: { title: t, version: v }\nactions:\n"
                       "  - target: $.paths['/orders/{id}'].delete\n"
                       "    update: { x-effect: { effect: write } }\n"}),
      HasSubstr("  cancelOrder:  # declared in o.yaml:5:25\n    match: \"DELETE shop "
                "/orders/{id}\"\n    effect: write\n    # CHECK: POST /orders makes it again"));
}

TEST(EffectsTest, AnOverlayMayNameWhatIsInAPathOtherwise) {
  const std::string policy = Imported(
      kShop,
      {"overlay: 1.0.0\ninfo: { title: t, version: v }\nactions:\n"
       "  - target: $.paths\n    update:\n      /v2/orders/{order}:\n        delete:\n"
       "          x-effect: { backend: shop, effect: write, identity: path.order, reason: r }\n"
       "  - target: $\n    update: { x-effect: { backends: { shop: { url: "
       "\"https://shop.example\", timeout: 9s } } } }\n"});
  EXPECT_THAT(policy, HasSubstr("  shop:\n    url: \"https://shop.example\"\n    timeout: 9s\n"));
  EXPECT_THAT(policy,
              HasSubstr("  cancelOrder:  # declared in o.yaml:8:21\n    match: \"DELETE shop "
                        "/v2/orders/{order}\"\n"));
  EXPECT_THAT(policy, HasSubstr("\"POST shop /v2/orders\""));
}

TEST(EffectsTest, MutationsOfAGraphqlEndpointAreTools) {
  const std::string policy = Imported(
      "openapi: 3.1.0\ninfo: { title: T, version: v }\n"
      "x-effect: { backends: { tracker: { url: \"https://t.example/graphql\", protocol: graphql } "
      "} }\n"
      "paths:\n  /graphql:\n    post:\n      x-effect:\n        mutations:\n"
      "          issueCreate: { effect: write, undo: none, reason: r }\n");
  EXPECT_THAT(policy, HasSubstr("  issueCreate:  # declared in api.yaml:9:24\n"
                                "    match: \"mutation tracker issueCreate\"\n"));
}

TEST(EffectsTest, ActionsOfAnOverlayAreCarriedOutInTheirOrder) {
  const auto with = [](const std::string& actions) {
    return Imported(kShop,
                    {"overlay: 1.0.0\ninfo: { title: t, version: v }\nactions:\n" + actions});
  };
  EXPECT_THAT(with("  - { target: \"$..[?@.operationId == 'cancelOrder']\", remove: true }\n"
                   "  - { target: \"$.paths['/orders'].post\", update: { operationId: place } }\n"),
              ::testing::AllOf(HasSubstr("  place:\n"), Not(HasSubstr("cancelOrder"))));
  EXPECT_THAT(with("  - { target: $.servers, remove: true }\n"
                   "  - { target: $, update: { servers: [ { url: \"https://b.example\" } ] } }\n"),
              HasSubstr("url: \"https://b.example\""));
  EXPECT_THAT(with("  - { target: $.nobody, update: { a: 1 } }\n"),
              HasSubstr("# CHECK: the overlay's target $.nobody selects nothing"));
}

TEST(EffectsTest, WhatIsNoOverlayIsRefused) {
  const auto refused = [](const std::string& overlay) { return Imported(kShop, {overlay}); };
  const std::string head = "overlay: 1.0.0\ninfo: { title: t, version: v }\n";
  EXPECT_THAT(refused("actions: []\n"), HasSubstr("o.yaml:1:1: error: overlay: is missing"));
  EXPECT_THAT(refused("overlay: 2.0.0\n"), HasSubstr("accepted: 1.0.0"));
  EXPECT_THAT(refused(head), HasSubstr("actions: is missing"));
  EXPECT_THAT(refused(head + "actions: []\n"), HasSubstr("a list of actions"));
  EXPECT_THAT(
      refused(head + "actions: [ { target: $, updat: {} } ]\n"),
      HasSubstr("o.yaml:3:25: error: actions[0].updat: unknown key, did you mean 'update'?"));
  EXPECT_THAT(refused(head + "actions: [ { target: \"$.a[?x]\", update: {} } ]\n"),
              HasSubstr("o.yaml:3:14: error: actions[0].target: is not understood from"));
  EXPECT_THAT(refused(head + "actions: [ { target: \"$.paths['/no'].post\", update: { x-effect: { "
                             "effect: read } } } ]\n"),
              HasSubstr("what is declared there would be lost"));
  EXPECT_THAT(refused(head + "actions: [ { target: $.info.title, update: {} } ]\n"),
              HasSubstr("selects a value at api.yaml:2:16"));
  EXPECT_THAT(refused(head + "actions: [ { target: $, update: { info: text } } ]\n"),
              HasSubstr("info is of another kind than at api.yaml:2:7"));
  EXPECT_THAT(refused("a: [\n"), HasSubstr("o.yaml:1:4: error: this '[' is not closed"));
}

}  // namespace
}  // namespace recourse::effects_test
