#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_mcp_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

using Answer = SeenTraffic::Answer;

std::string N(int number) { return std::to_string(number); }

Answer Order(int number) { return {200, {{"/id", "order-" + N(number)}, {"/status", "open"}}}; }
const Answer kRefused{400, {}};

// `count` orders, every fifth of them asked for twice with another note.
SeenTraffic ToolOrders(int count) {
  SeenTraffic traffic;
  traffic.List({{"create_order", false}, {"find_order", true}, {"cancel_order", false}});
  for (int i = 0; i < count; ++i) {
    const auto order = [&](const std::string& note, const Answer& answer) {
      traffic.CallTool("create_order",
                       {{"/item", "item-" + N(i)}, {"/note", note, ValueKind::kText}}, answer);
    };
    if (i % 5 == 0) order("please " + N(i), SeenTraffic::Lost());
    order("kindly " + N(i), Order(i));
  }
  return traffic;
}

std::string TextFor(const SeenTraffic& traffic) {
  Suggestion made = SuggestTools(traffic.seen, {});
  return ToolsText(made);
}

TEST(SuggestMcpTest, ArgumentsTellIdentityUndoAndProbe) {
  SeenTraffic traffic = ToolOrders(25);
  for (int i = 0; i < 25; ++i) {
    traffic.CallTool("find_order", {{"/item", "item-" + N(i)}}, Order(i));
    if (i % 4 == 0) traffic.CallTool("cancel_order", {{"/id", "order-" + N(i)}}, Order(i));
  }
  const SuggestedTool tool = traffic.Tool("tools/call", "/create_order");
  EXPECT_EQ(tool.name, "create_order");
  EXPECT_EQ(tool.identity.intents, 25);
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/item"));
  EXPECT_THAT(tool.identity.reworded, ElementsAre("body#/note"));
  EXPECT_EQ(tool.links.ref.place, "answer.body#/id");
  ASSERT_TRUE(tool.links.undo);
  EXPECT_EQ(tool.links.undo->request, "cancel_order");
  EXPECT_THAT(tool.links.undo->body, ElementsAre(Pair("id", "{external_ref}")));
  EXPECT_EQ(SuggestTools(traffic.seen, {}).replay.merged, 0);
  const std::string text = TextFor(traffic);
  EXPECT_THAT(text, Not(HasSubstr("left out")));
  EXPECT_THAT(text, HasSubstr(R"(match: "tools/call shop create_order")"));
  EXPECT_THAT(text, HasSubstr("# took back 7 of 25"));
  EXPECT_THAT(
      text, HasSubstr(R"(undo: { call: "cancel_order", arguments: { "id": "{external_ref}" } })"));
  EXPECT_THAT(text,
              HasSubstr(R"(settle: { call: "find_order", arguments: { "item": "{body#/item}" )"
                        R"(}, happened: "answer.body#/id" })"));
  EXPECT_THAT(text, HasSubstr("undo: none\n    reason: \"it takes back create_order\""));
  EXPECT_THAT(text, HasSubstr("readOnlyHint: true, which is believed here\n    effect: read"));
}

TEST(SuggestMcpTest, WithoutTheServersWordEveryToolIsAWrite) {
  SeenTraffic traffic;
  for (int i = 0; i < 3; ++i) traffic.CallTool("get_order", {{"/id", N(i)}}, Order(i));
  EXPECT_FALSE(traffic.Tool("tools/call", "/get_order").seen.IsRead());
  EXPECT_THAT(TextFor(traffic), HasSubstr("called like a question"));
  traffic.List({{"get_order", true}});
  EXPECT_TRUE(traffic.Tool("tools/call", "/get_order").seen.IsRead());
  traffic.List({{"get_order", false}});
  EXPECT_FALSE(traffic.Tool("tools/call", "/get_order").seen.IsRead()) << "it has said both";
}

TEST(SuggestMcpTest, ToolsAreNotTakenForNamesOfThings) {
  SeenTraffic traffic;
  const char* const tools[] = {"a", "b", "c", "d", "e", "f"};
  for (const char* const tool : tools) {
    traffic.CallTool("catalog", {}, {200, {{"/tools/0/name", tool}}});
  }
  for (const char* const tool : tools) traffic.CallTool(tool, {}, {});
  EXPECT_EQ(SuggestTools(traffic.seen, {}).tools.size(), 7);
  EXPECT_EQ(SuggestTools(traffic.seen, {}).calls, 12);
}

TEST(SuggestMcpTest, AToolThatNeverRanIsLeftOut) {
  SeenTraffic traffic = ToolOrders(2);
  traffic.CallTool("create_ordr", {{"/item", "tea"}}, kRefused);
  EXPECT_THAT(TextFor(traffic), HasSubstr("left out: create_ordr: no call of it succeeded"));
}

// A cancellation that some calls gave a reason works without one.
TEST(SuggestMcpTest, AnUndoGoesWithoutArgumentsThatSomeCallsDidWithout) {
  for (const bool is_optional : {true, false}) {
    SeenTraffic traffic = ToolOrders(10);
    for (int i = 0; i < 6; ++i) {
      SeenMembers members{{"/id", "order-" + N(i)}};
      if (!is_optional || i % 2 == 0) {
        members.push_back({"/reason", "because of " + N(i), ValueKind::kText});
      }
      traffic.CallTool("cancel_order", members, {});
    }
    const SuggestedTool tool = traffic.Tool("tools/call", "/create_order");
    EXPECT_EQ(tool.links.undo.has_value(), is_optional);
    if (is_optional) {
      EXPECT_THAT(tool.links.undo->body, ElementsAre(Pair("id", "{external_ref}")));
    } else {
      EXPECT_THAT(tool.links.other_undos,
                  ElementsAre("cancel_order named 6 of 10, but nothing tells body#/reason"));
    }
  }
}

TEST(SuggestMcpTest, WhatIsNotCalledLikeAnOppositeTakesNothingBack) {
  SeenTraffic traffic = ToolOrders(10);
  for (int i = 0; i < 6; ++i) traffic.CallTool("ship_order", {{"/id", "order-" + N(i)}}, {});
  const SuggestedTool tool = traffic.Tool("tools/call", "/create_order");
  EXPECT_EQ(tool.links.ref.place, "answer.body#/id");
  EXPECT_FALSE(tool.links.undo);
  EXPECT_THAT(tool.links.other_undos, IsEmpty());
}

// Numbers of customers are numbers of orders, too.
TEST(SuggestMcpTest, NumbersThatOtherToolsTakeAreNotWhatWasMade) {
  SeenTraffic traffic;
  for (int i = 0; i < 10; ++i) {
    traffic.CallTool("get_customer", {{"/id", N(i), ValueKind::kNumber}}, {});
  }
  for (int i = 0; i < 10; ++i) {
    traffic.CallTool("create_order", {{"/cart", "c-" + N(i)}},
                     {200, {{"/id", N(i), ValueKind::kNumber}}});
    traffic.CallTool("get_customer", {{"/id", N(i), ValueKind::kNumber}}, {});
  }
  EXPECT_THAT(traffic.Tool("tools/call", "/create_order").links.ref.place, IsEmpty());
}

TEST(SuggestMcpTest, TwoIntentsThatOnlyATimeTellsApartAreNeverOne) {
  SeenTraffic traffic;
  for (int i = 0; i < 30; ++i) {
    const auto pay = [&](const std::string& at, const Answer& answer) {
      traffic.CallTool("pay", {{"/to", "acc-" + N(i % 5)}, {"/at", at, ValueKind::kTime}}, answer);
    };
    if (i % 5 == 0) pay("a" + N(i), SeenTraffic::Lost());
    pay("b" + N(i), Order(i));
  }
  const SuggestedTool tool = traffic.Tool("tools/call", "/pay");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, IsEmpty());
  EXPECT_EQ(SuggestTools(traffic.seen, {}).replay.merged, 0);
}

}  // namespace
}  // namespace recourse::suggest_mcp_test
