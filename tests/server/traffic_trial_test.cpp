// What a policy would have made of traffic that was observed.
#include "proxy/traffic/traffic_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/policy/policy_builder.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::traffic_trial_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

using Answer = SeenTraffic::Answer;

constexpr const char* kBackends = R"(
backends:
  shop: { url: "http://shop" }
  door: { url: "http://door/mcp", protocol: mcp }
  graph: { url: "http://graph/graphql", protocol: graphql }
)";

std::string Orders(const std::string& words) {
  return std::string(kBackends) +
         "tools:\n  orders.create: { match: POST shop /orders, effect: write, settle: none, "
         "reason: "
         "r" +
         words + " }\n";
}

std::string N(int number) { return std::to_string(number); }
Answer Made(int id) { return {201, {{"/id", "ord-" + N(id)}}}; }
SeenMembers Order(int cart, const std::string& note) {
  return {{"/cart", "cart-" + N(cart)}, {"/note", note, ValueKind::kText}};
}

TrafficTrial Try(const std::string& policy, const SeenTraffic& traffic) {
  return TryTraffic(*LoadGood(policy), traffic.seen,
                    [](std::string_view value) { return SeenTraffic::HashOf(std::string(value)); });
}
ObservedCounts Counts(const TrafficTrial& trial, const std::string& tool = "orders.create") {
  const auto at = trial.tools.find(tool);
  return at == trial.tools.end() ? ObservedCounts() : at->second;
}

TEST(TrafficTrialTest, RepeatsOfLostCallsWouldHaveBeenCaught) {
  SeenTraffic traffic;
  for (int i = 0; i < 10; ++i) {
    if (i % 5 == 0) traffic.Call("POST", "/orders", Order(i, "a"), SeenTraffic::Lost());
    traffic.Call("POST", "/orders", Order(i, "a"), Made(i));
    traffic.Call("GET", "/orders", {}, {});
  }
  for (const char* words : {"", ", identity: all", ", identity: body#/cart"}) {
    const TrafficTrial trial = Try(Orders(words), traffic);
    EXPECT_EQ(trial.reads, 10);
    EXPECT_EQ(Counts(trial).seen, 12);
    EXPECT_EQ(Counts(trial).sent, 10);
    EXPECT_EQ(Counts(trial).in_doubt, 2);
    EXPECT_EQ(trial.merged, 0);
    EXPECT_EQ(trial.caught.at("orders.create").all, 2);
    EXPECT_EQ(trial.caught.at("orders.create").after_answer, 0);
  }
}

TEST(TrafficTrialTest, TwoOrdersOfOneCartThatGotTwoAnswersAreMerged) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(7, "a chair"), Made(1), "t");
  traffic.Call("POST", "/orders", Order(7, "a table"), Made(2), "t");
  EXPECT_EQ(Try(Orders(""), traffic).merged, 0);
  const TrafficTrial refused = Try(Orders(", identity: body#/cart"), traffic);
  ASSERT_EQ(refused.merges.size(), 1);
  EXPECT_THAT(refused.merges[0].arguments, ElementsAre("body#/note"));
  EXPECT_THAT(refused.merges[0].answers, ElementsAre("answer.body#/id"));
  EXPECT_TRUE(refused.merges[0].is_refused);
  EXPECT_EQ(Counts(refused).refused, 1);
  EXPECT_THAT(refused.caught, IsEmpty());
  for (const char* words : {", identity: body#/cart, on_mismatch: replay", ", ignore: /note"}) {
    const TrafficTrial replayed = Try(Orders(words), traffic);
    ASSERT_EQ(replayed.merges.size(), 1) << words;
    EXPECT_FALSE(replayed.merges[0].is_refused);
    EXPECT_EQ(Counts(replayed).replayed, 1);
  }
  const std::string text = TrialText(refused, traffic.seen, "p.yaml", Mode::kEnforce);
  EXPECT_THAT(text, HasSubstr("they differ in body#/note, and their answers in answer.body#/id; "
                              "the second would be refused (422)\n"));
  EXPECT_THAT(text, HasSubstr("1 call of another intent merged\nnext: add to `identity`"));
}

TEST(TrafficTrialTest, WhereAnswersTellNothingOtherArgumentsTellTwoIntents) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(7, "a chair"), {204}, "t");
  traffic.Call("POST", "/orders", Order(7, "a table"), {204}, "t");
  EXPECT_EQ(Try(Orders(", identity: body#/cart"), traffic).merged, 1);
  traffic.seen.back().body = traffic.seen.front().body;
  EXPECT_EQ(Try(Orders(", identity: body#/cart"), traffic).merged, 0);
}

// The repeat of a lost call was answered: what comes then is no repeat of it.
TEST(TrafficTrialTest, AfterARepeatThatWasAnsweredOtherCallsAreOtherIntents) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(7, "a chair"), SeenTraffic::Lost(), "t");
  traffic.Call("POST", "/orders", Order(7, "a chair"), Made(1), "t");
  traffic.Call("POST", "/orders", Order(7, "a table"), Made(2), "t");
  EXPECT_EQ(Try(Orders(", identity: body#/cart"), traffic).merged, 1);
}

// The same two, but the first answer never arrived: the second is its repeat in other words.
TEST(TrafficTrialTest, WhoHadNoAnswerAskedForTheSameAgain) {
  SeenTraffic traffic;
  Answer lost = Made(1);
  lost.is_delivered = false;
  traffic.Call("POST", "/orders", Order(7, "a chair"), lost, "t");
  traffic.Call("POST", "/orders", Order(7, "one chair"), Made(2), "t");
  const TrafficTrial trial = Try(Orders(", identity: body#/cart"), traffic);
  EXPECT_EQ(trial.merged, 0);
  EXPECT_EQ(Counts(trial).refused, 1);
  EXPECT_THAT(trial.refused, Contains(Key("orders.create: same key, other arguments (422)")));
}

TEST(TrafficTrialTest, EqualCallsAreOneInATraceAndOtherwiseWithinTheirWindow) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(7, "a"), Made(1), "t");
  traffic.Call("POST", "/orders", Order(7, "a"), Made(2), "t");
  TrafficTrial trial = Try(Orders(""), traffic);
  EXPECT_EQ(Counts(trial).replayed, 1);
  EXPECT_EQ(trial.caught.at("orders.create").after_answer, 1);
  EXPECT_EQ(trial.merged, 0);
  traffic.Call("POST", "/orders", Order(7, "a"), Made(3), "u");
  EXPECT_EQ(Counts(Try(Orders(""), traffic)).sent, 2);
  EXPECT_EQ(Counts(Try(Orders(", across_traces: always"), traffic)).replayed, 2);

  SeenTraffic untraced;
  untraced.Call("POST", "/orders", Order(7, "a"), Made(1));
  untraced.Call("POST", "/orders", Order(7, "a"), Made(2));
  untraced.Wait(11 * 60 * 1000);
  untraced.Call("POST", "/orders", Order(7, "a"), Made(3));
  EXPECT_EQ(Counts(Try(Orders(""), untraced)).sent, 3);
  trial = Try(Orders(", identity: body#/cart"), untraced);
  EXPECT_EQ(Counts(trial).sent, 2);
  EXPECT_EQ(trial.merged, 1);
  EXPECT_THAT(TrialText(trial, untraced.seen, "p", Mode::kEnforce),
              HasSubstr("they are equal, though not of one trace"));
}

TEST(TrafficTrialTest, WhatHadNoEffectOrIsEndedIsMadeAnew) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(1, "a"), {422}, "t");
  traffic.Call("POST", "/orders", Order(1, "a"), Made(1), "t");
  traffic.Call("DELETE", "/orders/ord-1", {}, {204}, "t");
  traffic.Call("POST", "/orders", Order(1, "a"), Made(2), "t");
  EXPECT_EQ(Counts(Try(Orders(""), traffic)).sent, 3);
  SeenTraffic changes;
  for (const char* state : {"open", "shut", "open", "open"}) {
    changes.Call("PUT", "/orders/ord-1", {{"/state", state}}, {200, {{"/state", state}}}, "t");
  }
  const ObservedCounts puts = Counts(Try(kBackends, changes), "unlisted.shop");
  EXPECT_EQ(puts.sent, 3);
  EXPECT_EQ(puts.replayed, 1);
  SeenTraffic verbs;
  for (const char* verb : {"close", "reopen", "close"}) {
    verbs.Call("POST", std::string("/orders/ord-1/") + verb, {}, {}, "t");
  }
  EXPECT_EQ(Counts(Try(kBackends, verbs), "unlisted.shop").sent, 3);
}

TEST(TrafficTrialTest, ARepeatOfARunningCallJoinsIt) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(1, "a"), Made(1), "t").took_ms = 5000;
  traffic.Call("POST", "/orders", Order(1, "a"), Made(1), "t");
  EXPECT_EQ(Counts(Try(Orders(""), traffic)).joined, 1);
}

TEST(TrafficTrialTest, TheAgentsKeyIsTheKeyWhereThereIsNoIdentity) {
  SeenTraffic traffic;
  for (const char* key : {"a", "a", "b"}) {
    traffic.Call("POST", "/orders", Order(1, "x"), Made(1)).agent_key = SeenTraffic::HashOf(key);
  }
  EXPECT_EQ(Counts(Try(Orders(", identity: all"), traffic)).replayed, 1);
  EXPECT_EQ(Counts(Try(Orders(", identity: body#/cart"), traffic)).replayed, 2);
  EXPECT_EQ(Counts(Try(Orders(", identity: body#/cart, agent_key: wins"), traffic)).replayed, 1);
}

TEST(TrafficTrialTest, WhatIsRefusedOrAskedIsCountedAndWhatIsNotKeptIsSaid) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", {{"/items", "[1]", ValueKind::kComposite}}, Made(1));
  const auto untold = [&](const std::string& words) {
    const TrafficTrial trial = Try(Orders(words), traffic);
    return Counts(trial).untold == 1 ? trial.untold.begin()->first : std::string("told");
  };
  EXPECT_EQ(untold(", identity: body#/items"), "told");
  EXPECT_THAT(untold(", identity: body#/items/0"), HasSubstr("lists are kept as a whole"));
  EXPECT_THAT(untold(", identity: header.X-Id"), HasSubstr("header fields are not kept"));
  EXPECT_THAT(untold(", scope: 'header:X-Id'"), HasSubstr("header fields are not kept"));
  EXPECT_THAT(untold(", allow: body#/cart == \"c\""), HasSubstr("`allow` compares"));
  EXPECT_EQ(Counts(Try(Orders(", trace: required"), traffic)).refused, 1);
  EXPECT_EQ(Counts(Try(Orders(", scope: body#/cart"), traffic)).refused, 1);
  const std::string asks = std::string(kBackends) +
                           "tools:\n  orders.create: { match: POST shop /orders, effect: write, "
                           "settle: none, approval: { by: ann } }\n";
  EXPECT_EQ(Counts(Try(asks, traffic)).asks, 1);
  const TrafficTrial gone = Try("backends: { b: { url: \"http://b\" } }\n", traffic);
  EXPECT_EQ(Counts(gone, "unlisted.shop").refused, 1);
  EXPECT_THAT(TrialText(gone, traffic.seen, "p", Mode::kEnforce),
              HasSubstr("refused       1  unlisted.shop: unknown-backend: no backend"));
  traffic.seen.front().form = SeenBody::kOther;
  traffic.seen.front().body.clear();
  EXPECT_THAT(untold(""), HasSubstr("neither JSON nor a form"));
  traffic.seen.front().backend = "graph";
  EXPECT_EQ(Counts(Try(kBackends, traffic), "unlisted.graph").untold, 1);
}

TEST(TrafficTrialTest, PathsAndNamesAreThoseOfThePolicy) {
  SeenTraffic traffic;
  traffic.Call("POST", "/api/2024-10/orders/ord-1/lines", {{"/sku", "a"}}, Made(1), "t");
  traffic.Call("POST", "/api/2024-10/orders/ord-2/lines", {{"/sku", "a"}}, Made(2), "t");
  traffic.Call("POST", "/api/2024-10/orders/ord-2/lines", {{"/sku", "a"}}, Made(2), "t");
  traffic.CallTool("make", {{"/sku", "a"}}, Made(1)).backend = "door";
  traffic.List({{"make", false}});
  const std::string policy = std::string(kBackends) + R"(tools:
  lines.add:
    match: "POST shop /api/2024-10/orders/{id}/lines"
    effect: write
    settle: none
    identity: [ path.id, body#/sku ]
    reason: r
  make: { match: tools/call door make, effect: write, settle: none, identity: body#/sku, reason: r }
)";
  const TrafficTrial trial = Try(policy, traffic);
  EXPECT_EQ(trial.calls, 4);
  EXPECT_EQ(Counts(trial, "lines.add").sent, 2);
  EXPECT_EQ(Counts(trial, "lines.add").replayed, 1);
  EXPECT_EQ(Counts(trial, "make").sent, 1);
  const std::string text = TrialText(trial, traffic.seen, "p.yaml", Mode::kObserve);
  EXPECT_THAT(text, AllOf(HasSubstr("tool       seen  sent  replayed  joined  in doubt"),
                          HasSubstr("\nlines.add     3     2         1       0         0"),
                          HasSubstr("next: say mode: enforce, then recourse policy check --strict "
                                    "p.yaml\n")));
}

}  // namespace
}  // namespace recourse::traffic_trial_test
