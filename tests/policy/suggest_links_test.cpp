#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "policy/suggest/tool_verdict.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_links_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Answer = SeenTraffic::Answer;

std::string N(int number) { return std::to_string(number); }

SeenTraffic::Answer Made(int id, int quantity) {
  return {201,
          {{"/id", N(id), ValueKind::kNumber},
           {"/quantity", N(quantity), ValueKind::kNumber},
           {"/state", "open"}}};
}

// `count` orders of ids from 100 on.
SeenTraffic Orders(int count) {
  SeenTraffic traffic;
  for (int i = 0; i < count; ++i) {
    traffic.Call("POST", "/orders",
                 {{"/cart_id", "cart-" + N(i)}, {"/amount", N(900 + i), ValueKind::kNumber}},
                 Made(100 + i, 100 + (i * 7) % 5));
  }
  return traffic;
}

TEST(SuggestLinksTest, TheIdIsWhatComesBackInPathsAndDeleteTakesItBack) {
  SeenTraffic traffic = Orders(8);
  for (int i = 0; i < 6; ++i) traffic.Call("GET", "/orders/" + N(100 + i), {}, {});
  for (int i = 0; i < 3; ++i) traffic.Call("DELETE", "/orders/" + N(100 + i), {}, {204});
  traffic.Call("GET", "/orders/100", {}, {404});
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.links.ref.place, "answer.body#/id");
  EXPECT_EQ(tool.links.ref.came_back, 6);
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "DELETE /orders/{external_ref}");
  EXPECT_EQ(tool.links.undo->taken_back, 3);
  EXPECT_EQ(tool.links.undo->gone, 1);
}

// Orders and customers are both numbered from 1: their paths are not each other's.
TEST(SuggestLinksTest, NumbersThatComeBackByChanceNameNothing) {
  SeenTraffic traffic;
  for (int i = 1; i <= 12; ++i) traffic.Call("GET", "/customers/" + N(i), {}, {});
  for (int i = 1; i <= 12; ++i) {
    traffic.Call("POST", "/notes", {{"/text", "note " + N(i), ValueKind::kText}},
                 {201, {{"/seq", N(i), ValueKind::kNumber}}});
  }
  for (int i = 1; i <= 12; ++i) traffic.Call("GET", "/customers/" + N(i), {}, {});
  for (int i = 1; i <= 4; ++i) traffic.Call("DELETE", "/customers/" + N(i), {}, {204});
  const SuggestedTool tool = traffic.Tool("POST", "/notes");
  EXPECT_EQ(tool.links.ref.place, "");
  EXPECT_FALSE(tool.links.undo);
}

// What the call sent itself was not made by it, however often it comes back.
TEST(SuggestLinksTest, AnEchoOfTheRequestIsNoNameOfWhatWasMade) {
  SeenTraffic traffic;
  for (int i = 0; i < 8; ++i) {
    traffic.Call("POST", "/orders", {{"/customer_id", "cu-" + N(i)}},
                 {201, {{"/customer_id", "cu-" + N(i)}, {"/total", "12"}}});
    traffic.Call("GET", "/customers/cu-" + N(i), {}, {});
    traffic.Call("DELETE", "/customers/cu-" + N(i), {}, {204});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.links.ref.place, "");
  EXPECT_FALSE(tool.links.undo);
}

TEST(SuggestLinksTest, APathThatEndsWithCancelTakesBack) {
  SeenTraffic traffic = Orders(6);
  for (int i = 0; i < 4; ++i) {
    traffic.Call("POST", "/orders/" + N(100 + i) + "/cancel", {}, {200});
    traffic.Call("POST", "/orders/" + N(100 + i) + "/notes", {{"/text", "a b", ValueKind::kText}},
                 {201});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "POST /orders/{external_ref}/cancel");
}

// A loan's return may be its undo, or how it ends.
TEST(SuggestLinksTest, AnAmbiguousNameIsMarkedAndGivesWayToAClearOne) {
  SeenTraffic traffic = Orders(8);
  for (int i = 0; i < 5; ++i) traffic.Call("POST", "/orders/" + N(100 + i) + "/return", {}, {200});
  SuggestedTool tool = traffic.Tool("POST", "/orders");
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "POST /orders/{external_ref}/return");
  EXPECT_TRUE(tool.links.undo->is_guess);
  EXPECT_THAT(VerdictOf(tool).open,
              Contains("undo POST /orders/{external_ref}/return of 5 of 8, if that takes it back"));
  for (int i = 5; i < 7; ++i) traffic.Call("POST", "/orders/" + N(100 + i) + "/cancel", {}, {200});
  tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.links.undo->request, "POST /orders/{external_ref}/cancel");
  EXPECT_FALSE(tool.links.undo->is_guess);
}

// Many clients send an empty object where there is nothing to say.
TEST(SuggestLinksTest, AnEmptyObjectIsSentAsOne) {
  SeenTraffic traffic = Orders(6);
  for (int i = 0; i < 4; ++i) {
    Sighting& call = traffic.Call("POST", "/orders/" + N(100 + i) + "/cancel", {}, {200});
    call.form = SeenBody::kJson;
  }
  Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(ToolsText(made),
              HasSubstr("undo: { request: \"POST /orders/{external_ref}/cancel\", json: { }, "));
  EXPECT_THAT(made.left_out, IsEmpty());
}

TEST(SuggestLinksTest, ARefundNamesWhatItTakesBackInItsBody) {
  SeenTraffic traffic = Orders(6);
  for (int i = 0; i < 6; ++i) traffic.Call("GET", "/orders/" + N(100 + i), {}, {});
  for (int i = 0; i < 3; ++i) {
    traffic.Call(
        "POST", "/refunds",
        {{"/order", N(100 + i), ValueKind::kNumber}, {"/amount", N(900 + i), ValueKind::kNumber}},
        {201});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "POST /refunds");
  EXPECT_THAT(tool.links.undo->body, ElementsAre(std::pair("amount", "{body#/amount}"),
                                                 std::pair("order", "{external_ref}")));
}

TEST(SuggestLinksTest, ACandidateWithAValueThatNothingTellsIsOnlyNamed) {
  SeenTraffic traffic = Orders(6);
  for (int i = 0; i < 4; ++i) {
    traffic.Call("POST", "/orders/" + N(100 + i) + "/cancel",
                 {{"/reason", "why " + N(i), ValueKind::kText}}, {200});
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_FALSE(tool.links.undo);
  EXPECT_THAT(tool.links.other_undos,
              ElementsAre("POST /orders/{id}/cancel named 4 of 6, but nothing tells body#/reason"));
  EXPECT_THAT(
      VerdictOf(tool).open,
      Contains("undo undecided, as POST /orders/{id}/cancel named 4 of 6, but nothing tells "
               "body#/reason"));
}

// 25 orders, repeats among them, and lists asked for by cart.
SeenTraffic Asked(bool by_customer) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const SeenMembers body{{"/cart_id", "cart-" + N(i)}, {"/customer_id", "cu-" + N(i % 4)}};
    if (i % 5 == 0) traffic.Call("POST", "/orders", body, SeenTraffic::Lost());
    traffic.Call("POST", "/orders", body, {201, {{"/id", "ord-" + N(i)}}});
    traffic.Call("GET", "/orders/ord-" + N(i), {}, {200, {{"/id", "ord-" + N(i)}}});
    traffic.Call("GET",
                 by_customer ? "/orders?customer_id=cu-" + N(i % 4) : "/orders?cart=cart-" + N(i),
                 {}, {200, {{"/items/0/id", "ord-" + N(i)}}});
  }
  return traffic;
}

TEST(SuggestLinksTest, AListAskedForByTheIntentsOwnValueIsItsProbe) {
  const SuggestedTool tool = Asked(false).Tool("POST", "/orders");
  ASSERT_TRUE(tool.links.probe);
  EXPECT_EQ(tool.links.probe->request, "GET /orders?cart={body#/cart_id}");
  EXPECT_EQ(tool.links.probe->happened, "answer.body#/items/0/id");
  EXPECT_EQ(tool.links.probe->found, 20);
}

// A customer has other orders, too: their list tells nothing of this one.
TEST(SuggestLinksTest, AListAskedForByASharedValueIsNoProbe) {
  EXPECT_FALSE(Asked(true).Tool("POST", "/orders").links.probe);
}

TEST(SuggestLinksTest, WordsThatAnswersToldBeforeAreNamesInPaths) {
  SeenTraffic traffic;
  for (const std::string name : {"ada", "bob", "cleo", "dora", "emil", "fay"}) {
    traffic.Call("POST", "/users", {{"/mail", name + " mail"}}, {201, {{"/name", name}}});
    traffic.Call("GET", "/users/" + name, {}, {});
  }
  traffic.Call("GET", "/users/search", {}, {});
  std::vector<std::string> patterns;
  for (const SuggestedTool& tool : SuggestTools(traffic.seen, {}).tools) {
    patterns.push_back(tool.seen.method + " " + tool.seen.Pattern());
  }
  EXPECT_THAT(patterns, ElementsAre("POST /users", "GET /users/search", "GET /users/{id}"));
}

TEST(SuggestLinksTest, ADescriptionNamesPathsThatTrafficAloneDoesNotTell) {
  SeenTraffic traffic;
  traffic.Call("GET", "/regions/north", {}, {});
  traffic.Call("GET", "/regions/south", {}, {});
  const std::vector<KnownOperation> known{{"GET", "/regions/{region}", "getRegion"}};
  const Suggestion made = SuggestTools(traffic.seen, known);
  ASSERT_EQ(made.tools.size(), 1);
  EXPECT_EQ(made.tools[0].name, "getRegion");
  EXPECT_EQ(made.tools[0].seen.Pattern(), "/regions/{region}");
}

TEST(SuggestLinksTest, TheTextIsAPolicyThatTheLoaderTakes) {
  SeenTraffic traffic = Asked(false);
  for (int i = 0; i < 3; ++i) traffic.Call("DELETE", "/orders/ord-" + N(i), {}, {204});
  Suggestion made = SuggestTools(traffic.seen, {});
  std::string text = ToolsText(made);
  EXPECT_THAT(made.left_out, IsEmpty());
  EXPECT_THAT(text, HasSubstr("  orders.create:\n"));
  EXPECT_THAT(text, HasSubstr("    identity: [ \"body#/cart_id\", \"body#/customer_id\" ]\n"));
  EXPECT_THAT(text, HasSubstr("took back 3 of 25"));
  const LoadedPolicy loaded = LoadPolicyText(
      "p", text + "mode: observe\nbackends: { shop: { url: \"http://127.0.0.1:1\" } }\n");
  ASSERT_TRUE(loaded.ok()) << loaded.problems.front().ToString() << "\n" << text;
  const Tool* const tool = loaded.policy->FindTool("orders.create");
  ASSERT_NE(tool, nullptr);
  EXPECT_TRUE(tool->undo) << text;
  // Another customer's order of that cart would be taken for this one.
  EXPECT_FALSE(tool->settle) << text;
  EXPECT_THAT(text, HasSubstr("    # settle: { request: \"GET /orders?cart={body#/cart_id}\""));
  for (SuggestedTool& one : made.tools) one.identity.identity = {"body#/cart_id"};
  EXPECT_THAT(ToolsText(made), HasSubstr("    settle: { request: \"GET /orders?cart="));
}

TEST(SuggestLinksTest, NamesThatSpeakAgainstTheMethodAreMarked) {
  SeenTraffic traffic;
  traffic.Call("GET", "/users/1/delete", {}, {});
  traffic.Call("POST", "/users/search", {{"/name", "ada"}}, {});
  Suggestion made = SuggestTools(traffic.seen, {});
  const std::string text = ToolsText(made);
  EXPECT_THAT(text, HasSubstr("CHECK: it is called like a change"));
  EXPECT_THAT(text, HasSubstr("CHECK: it is called like a question"));
}

TEST(SuggestLinksTest, WhatThePolicyListsAlreadyIsLeftOut) {
  SeenTraffic traffic = Orders(3);
  for (Sighting& call : traffic.seen) call.tool = "orders.create";
  const Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(made.tools, IsEmpty());
  EXPECT_EQ(made.listed, 1);
}

}  // namespace
}  // namespace recourse::suggest_links_test
