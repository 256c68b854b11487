// What is told about repeats instead of being settled; and tools that the policy has already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "policy/suggest/tool_verdict.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_doubts_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Answer = SeenTraffic::Answer;

std::string N(int number) { return std::to_string(number); }
Answer Made(int id) { return {201, {{"/id", "note-" + N(id)}}}; }

// Every third note is sent again after its answer: half of those byte by byte, half with another
// time and another random value.
SeenTraffic Stamped(ValueKind nonce) {
  SeenTraffic traffic;
  int attempt = 0, made = 0;
  for (int i = 0; i < 48; ++i) {
    const auto note = [&](int stamp) {
      traffic.Call("POST", "/notes",
                   {{"/order_id", "ord-" + N(i)},
                    {"/text", "called"},
                    {"/sent_at", "t" + N(stamp), ValueKind::kTime},
                    {"/nonce", "n" + N(stamp), nonce}},
                   Made(++made), "trace " + N(i));
    };
    note(++attempt);
    if (i % 6 == 0) note(attempt);
    if (i % 6 == 3) note(++attempt);
  }
  return traffic;
}

std::string OpenOf(const SuggestedTool& tool) {
  std::string all;
  for (const std::string& open : VerdictOf(tool).open) all += open + "\n";
  return all;
}

TEST(SuggestDoubtsTest, StampsOfAnAttemptAreLeftOutAndNeverSettled) {
  const SuggestedTool tool = Stamped(ValueKind::kOpaque).Tool("POST", "/notes");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, Not(Contains("body#/nonce")));
  EXPECT_THAT(tool.identity.identity, Not(Contains("body#/sent_at")));
  EXPECT_THAT(tool.identity.ignore, ElementsAre("/nonce", "/sent_at"));
  EXPECT_THAT(OpenOf(tool), HasSubstr("8 calls are equal to an earlier one of the same trace but "
                                      "for body#/nonce, body#/sent_at: is it a repeat?"));
  EXPECT_THAT(VerdictOf(tool).holds, Not(Contains(HasSubstr("identity of"))));
}

// A value that does not look random, yet is another one in every call and comes back nowhere.
TEST(SuggestDoubtsTest, WordsThatAreNewInEveryCallAreAskedAbout) {
  const SuggestedTool tool = Stamped(ValueKind::kWord).Tool("POST", "/notes");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(OpenOf(tool), HasSubstr("but for body#/nonce, body#/sent_at: is it a repeat?"));
}

// The cart comes back in a question: it names something.
TEST(SuggestDoubtsTest, AnotherNameOfSomethingIsAnotherIntent) {
  SeenTraffic traffic;
  for (int i = 0; i < 30; ++i) {
    for (int k = 0; k <= static_cast<int>(i % 3 == 0); ++k) {
      const std::string cart = "cart-" + N(i) + "-" + N(k);
      traffic.Call("POST", "/orders", {{"/customer", "cu-" + N(i)}, {"/cart", cart}},
                   Made(2 * i + k), "t" + N(i));
      traffic.Call("GET", "/orders?cart=" + cart, {}, {}, "t" + N(i));
    }
  }
  EXPECT_THAT(traffic.Tool("POST", "/orders").identity.doubts, IsEmpty());
}

TEST(SuggestDoubtsTest, RepeatsAfterAReceivedAnswerMayBeMeant) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const SeenMembers body{{"/cart_id", "cart-" + N(i)}};
    if (i % 5 == 0) traffic.Call("POST", "/orders", body, Made(100 + i), "t" + N(i));
    if (i % 5 == 1) traffic.Call("POST", "/orders", body, SeenTraffic::Lost(), "t" + N(i));
    traffic.Call("POST", "/orders", body, Made(i), "t" + N(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.identity.after_answer, 5);
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/cart_id"));
  const std::string told = "5 of 10 repeats came after a received answer: these may be meant twice";
  EXPECT_THAT(OpenOf(tool), HasSubstr(told));
  Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(ToolsText(made), HasSubstr("# CHECK: " + told));
}

TEST(SuggestDoubtsTest, WritesWithoutATraceAreCounted) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", {{"/cart", "a"}}, Made(1));
  traffic.Call("POST", "/orders", {{"/cart", "b"}}, Made(2), "t");
  const Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(UntracedLine(made), HasSubstr("1 of 2 writes had no trace"));
  EXPECT_THAT(UntracedLine(made), HasSubstr("traceparent"));
  EXPECT_THAT(UntracedLine(SuggestTools({traffic.seen.back()}, {})), IsEmpty());
}

TEST(SuggestDoubtsTest, WhatHasNoIdentityIsNotSaidToHaveOne) {
  SeenTraffic traffic;
  for (int i = 0; i < 4; ++i) {
    const SeenMembers body{{"/cart", "c" + N(i)}};
    if (i < 1) traffic.Call("POST", "/orders", body, SeenTraffic::Lost());
    traffic.Call("POST", "/orders", body, Made(i));
  }
  EXPECT_THAT(VerdictOf(traffic.Tool("POST", "/orders")).holds,
              Contains("the whole call tells 4 intents, 1 repeat"));
}

TEST(SuggestDoubtsTest, ToolsOfTheGivenPolicyAreTakenAsTheyAre) {
  SeenTraffic traffic = Stamped(ValueKind::kOpaque);
  const auto judged = [&](const std::string& identity) {
    const LoadedPolicy loaded = LoadPolicyText(
        "p",
        "version: 1\nmode: observe\nbackends: { shop: { url: \"http://127.0.0.1:1\" } }\n"
        "tools:\n  note:\n    match: \"POST shop /notes\"\n    effect: write\n" +
            identity + "    undo: none\n    reason: a test says so\n");
    EXPECT_TRUE(loaded.ok()) << loaded.problems.front().ToString();
    const Suggestion made = SuggestTools(traffic.seen, {}, loaded.policy.get());
    EXPECT_THAT(made.tools, IsEmpty());
    EXPECT_EQ(made.listed, 1);
    EXPECT_EQ(made.judged.size(), 1);
    return made.judged.front();
  };
  const ListedVerdict right = judged("    identity: [ \"body#/order_id\" ]\n");
  EXPECT_EQ(right.name, "note");
  EXPECT_EQ(right.caught, 16);
  EXPECT_EQ(right.repeats, 16);
  EXPECT_EQ(right.merged, 0);
  EXPECT_EQ(judged("").caught, 8) << "the whole call";
  for (Sighting& call : traffic.seen) call.trace = 1;
  EXPECT_GT(judged("    identity: [ \"body#/text\" ]\n").merged, 20);
  EXPECT_FALSE(judged("    identity: [ header.X-Note ]\n").is_judged);
}

}  // namespace
}  // namespace recourse::suggest_doubts_test
