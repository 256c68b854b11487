#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_identity_test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using Answer = SeenTraffic::Answer;

std::string N(int number) { return std::to_string(number); }

// An order; its time is that of the attempt.
SeenMembers Order(int cart, int customer, const std::string& at) {
  return {{"/cart_id", "cart-" + N(cart)},
          {"/customer", "cu-" + N(customer)},
          {"/sent_at", at, ValueKind::kTime}};
}
Answer Made(int id) { return {201, {{"/id", "ord-" + N(id)}}}; }

TEST(SuggestIdentityTest, TimesThatChangeWithEachAttemptAreIgnoredAndAllElseIsTheIdentity) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    if (i % 5 == 0)
      traffic.Call("POST", "/orders", Order(i, i % 3, "a" + N(i)), SeenTraffic::Lost());
    traffic.Call("POST", "/orders", Order(i, i % 3, "b" + N(i)), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.identity.calls, 30);
  EXPECT_EQ(tool.identity.intents, 25);
  EXPECT_EQ(tool.identity.repeats, 5);
  EXPECT_THAT(tool.identity.anchors, ElementsAre("body#/cart_id"));
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/cart_id", "body#/customer"));
  EXPECT_THAT(tool.identity.ignore, ElementsAre("/sent_at"));
  const Suggestion all = SuggestTools(traffic.seen, {});
  EXPECT_EQ(all.replay.repeats, 5);
  EXPECT_EQ(all.replay.merged, 0);
  EXPECT_EQ(all.replay.refused, 0);
}

// The same customer orders the same twice: only the time tells the two apart, and both were made.
TEST(SuggestIdentityTest, TwoIntentsThatDifferInTheirTimeAloneKeepItInTheKey) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const int customer = i == 24 ? 3 : i;
    const SeenMembers body = {{"/customer_id", "cu-" + N(customer)},
                              {"/sent_at", "a" + N(i), ValueKind::kTime}};
    SeenMembers again = body;
    again[1].value = "b" + N(i);
    if (i % 5 == 1) traffic.Call("POST", "/orders", body, SeenTraffic::Lost());
    traffic.Call("POST", "/orders", again, Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, IsEmpty());
  EXPECT_THAT(tool.identity.ignore, IsEmpty());
  EXPECT_THAT(tool.identity.why, HasSubstr("1 calls differ from another intent in body#/sent_at"));
  EXPECT_EQ(SuggestTools(traffic.seen, {}).replay.merged, 0);
}

TEST(SuggestIdentityTest, FewIntentsProveNothing) {
  SeenTraffic traffic;
  for (int i = 0; i < 10; ++i) {
    traffic.Call("POST", "/orders", Order(i, i, "a" + N(i)), SeenTraffic::Lost());
    traffic.Call("POST", "/orders", Order(i, i, "b" + N(i)), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, IsEmpty());
  EXPECT_THAT(tool.identity.why, HasSubstr("fewer than 20 intents"));
}

// The second instalment comes after the first one has failed: that is no repeat.
TEST(SuggestIdentityTest, WhatFollowsAFailureWithAnotherNumberIsAnotherIntent) {
  SeenTraffic traffic;
  const auto pay = [&](int cart, int part, const std::string& at, const Answer& answer) {
    traffic.Call("POST", "/payments",
                 {{"/cart_id", "cart-" + N(cart)},
                  {"/part", N(part), ValueKind::kNumber},
                  {"/sent_at", at, ValueKind::kTime}},
                 answer);
  };
  for (int i = 0; i < 25; ++i) {
    if (i % 4 == 0) pay(i, 1, "a" + N(i), SeenTraffic::Lost());
    if (i % 4 != 1) pay(i, 1, "b" + N(i), Made(2 * i));
    if (i % 4 == 1) pay(i, 1, "b" + N(i), SeenTraffic::Lost());
    pay(i, 2, "c" + N(i), Made(2 * i + 1));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/payments");
  EXPECT_EQ(tool.identity.intents, 50);
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/cart_id", "body#/part"));
  EXPECT_EQ(SuggestTools(traffic.seen, {}).replay.merged, 0);
}

// A room is booked for an hour of a day: none of the three tells a booking alone.
TEST(SuggestIdentityTest, ValuesThatTellIntentsApartTogetherAreTheirIdentity) {
  SeenTraffic traffic;
  for (int i = 0; i < 60; ++i) {
    const auto book = [&](const std::string& words, const std::string& at, const Answer& answer) {
      traffic.Call("POST", "/rooms/" + N(1 + i % 3) + "/bookings",
                   {{"/day", "day-" + N(i / 3 % 10)},
                    {"/from", N(8 + i / 30), ValueKind::kNumber},
                    {"/purpose", words, ValueKind::kText},
                    {"/sent_at", at, ValueKind::kTime},
                    {"/who", "user-" + N(i % 5)}},
                   answer);
    };
    if (i % 7 == 0) book("a quick sync", "a" + N(i), SeenTraffic::Lost());
    book("quick sync, please", "b" + N(i), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/rooms/{id}/bookings");
  EXPECT_THAT(tool.identity.identity,
              ElementsAre("body#/day", "body#/from", "body#/who", "path.id"));
  EXPECT_THAT(tool.identity.ignore, ElementsAre("/sent_at"));
  EXPECT_THAT(tool.identity.reworded, ElementsAre("body#/purpose"));
  EXPECT_THAT(tool.identity.why, HasSubstr(" together differ between all 60 intents"));
  EXPECT_EQ(SuggestTools(traffic.seen, {}).replay.merged, 0);
}

// To whom and what for: that none of 25 was the same is what chance would have it.
TEST(SuggestIdentityTest, ValuesThatMayHaveBeenOthersByChanceAreNoIdentity) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const SeenMembers body{{"/to", "acc-" + N(i % 6)},
                           {"/amount", N(i * 7 % 19), ValueKind::kNumber},
                           {"/sent_at", "a" + N(i), ValueKind::kTime}};
    SeenMembers again = body;
    again[2].value = "b" + N(i);
    if (i % 5 == 1) traffic.Call("POST", "/transfers", body, SeenTraffic::Lost());
    traffic.Call("POST", "/transfers", again, Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/transfers");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.why, HasSubstr("unless by chance"));
}

TEST(SuggestIdentityTest, AFreeTextThatIsWordedAnewIsNeverIgnored) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const auto ticket = [&](const std::string& words, const Answer& answer) {
      traffic.Call("POST", "/tickets",
                   {{"/order_id", "ord-" + N(i)}, {"/text", words, ValueKind::kText}}, answer);
    };
    if (i % 5 == 0) ticket("it broke " + N(i), SeenTraffic::Lost());
    ticket("it is broken " + N(i), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/tickets");
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/order_id"));
  EXPECT_THAT(tool.identity.reworded, ElementsAre("body#/text"));
  EXPECT_THAT(tool.identity.ignore, IsEmpty());
  // Refused as a repeat in other words: nothing is lost, nothing is made twice.
  EXPECT_EQ(SuggestTools(traffic.seen, {}).replay.refused, 5);
}

// One queue, other words: only the text tells two tickets apart.
TEST(SuggestIdentityTest, TextsThatAloneTellIntentsApartStayInTheKey) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const auto ticket = [&](const std::string& words, const Answer& answer) {
      traffic.Call("POST", "/tickets", {{"/queue", "support"}, {"/text", words, ValueKind::kText}},
                   answer);
    };
    if (i % 5 == 0) ticket("it broke " + N(i), SeenTraffic::Lost());
    ticket("it is broken " + N(i), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/tickets");
  EXPECT_FALSE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, IsEmpty());
}

TEST(SuggestIdentityTest, ARandomValueThatIsMetElsewhereNamesSomething) {
  for (const bool is_met : {false, true}) {
    SeenTraffic traffic;
    for (int i = 0; i < 25; ++i) {
      const auto order = [&](const std::string& random, const Answer& answer) {
        traffic.Call("POST", "/orders",
                     {{"/cart_id", "cart-" + N(i)}, {"/request", random, ValueKind::kOpaque}},
                     answer);
      };
      if (i % 5 == 0) order("first" + N(i), SeenTraffic::Lost());
      order("then" + N(i), Made(i));
      if (is_met && i == 5) traffic.Call("GET", "/requests/then" + N(i) + "/state", {}, {});
    }
    const SuggestedTool tool = traffic.Tool("POST", "/orders");
    if (is_met) {
      EXPECT_THAT(tool.identity.ignore, IsEmpty());
    } else {
      EXPECT_THAT(tool.identity.ignore, ElementsAre("/request"));
      EXPECT_THAT(tool.identity.identity, ElementsAre("body#/cart_id"));
    }
  }
}

// What an answer tells of an earlier call was not made by another one.
TEST(SuggestIdentityTest, ARandomValueMayBeReadAgainButNotHaveBeenToldBefore) {
  for (const bool is_told_before : {false, true}) {
    SeenTraffic traffic;
    for (int i = 0; i < 25; ++i) {
      const auto order = [&](const std::string& random, const Answer& answer) {
        const SeenMember told{"/request", random, ValueKind::kOpaque};
        if (is_told_before) traffic.Call("POST", "/requests", {}, {201, {told}});
        traffic.Call("POST", "/orders", {{"/cart_id", "cart-" + N(i)}, told}, answer);
        if (!is_told_before) traffic.Call("GET", "/orders/" + N(i), {}, {200, {told}});
      };
      if (i % 5 == 0) order("first" + N(i), SeenTraffic::Lost());
      order("then" + N(i), Made(i));
    }
    EXPECT_EQ(traffic.Tool("POST", "/orders").identity.ignore.size(), is_told_before ? 0 : 1);
  }
}

TEST(SuggestIdentityTest, ALostCallIsRepeatedByOneOtherOnly) {
  SeenTraffic traffic;
  for (int i = 0; i < 10; ++i) {
    const SeenMembers ticket{{"/queue", "support"},
                             {"/text", "it broke " + N(i), ValueKind::kText}};
    traffic.Call("POST", "/tickets", ticket, i == 0 ? SeenTraffic::Lost() : Made(i));
  }
  EXPECT_LE(traffic.Tool("POST", "/tickets").identity.repeats, 1);
}

TEST(SuggestIdentityTest, TheAgentsOwnKeyTellsRepeatsFromIntents) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    for (int attempt = 0; attempt <= i % 2; ++attempt) {
      traffic.Call("POST", "/orders", Order(i, 1, N(i) + "." + N(attempt)), Made(i)).agent_key =
          SeenTraffic::HashOf("key" + N(i));
    }
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.identity.intents, 25);
  EXPECT_EQ(tool.identity.repeats, 12);
  EXPECT_THAT(tool.identity.ignore, ElementsAre("/sent_at"));
}

TEST(SuggestIdentityTest, EqualRepeatsOfFewIntentsLeaveAllArgumentsTheKey) {
  SeenTraffic traffic;
  for (int i = 0; i < 4; ++i) {
    traffic.Call("POST", "/orders", Order(i, 1, "a"), SeenTraffic::Lost());
    traffic.Call("POST", "/orders", Order(i, 1, "a"), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_TRUE(tool.identity.is_decided);
  EXPECT_THAT(tool.identity.identity, IsEmpty());
  EXPECT_THAT(tool.identity.why, HasSubstr("equal arguments"));
  Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(ToolsText(made), HasSubstr("equal arguments\n    identity: all\n"));
}

TEST(SuggestIdentityTest, WhatHasNoArgumentsButItsPathHasAllOfThemForItsIdentity) {
  SeenTraffic traffic;
  for (int i = 0; i < 3; ++i) traffic.Call("POST", "/orders/b" + N(i) + "7/close", {}, {});
  Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(ToolsText(made), HasSubstr("its path is all that it says\n    identity: all\n"));
}

TEST(SuggestIdentityTest, OneEqualRepeatDoesNotShowThatAllArgumentsCount) {
  SeenTraffic traffic;
  for (int i = 0; i < 4; ++i) {
    if (i == 0) traffic.Call("POST", "/orders", Order(i, 1, "a"), SeenTraffic::Lost());
    traffic.Call("POST", "/orders", Order(i, 1, "a"), Made(i));
  }
  Suggestion made = SuggestTools(traffic.seen, {});
  EXPECT_THAT(ToolsText(made), Not(HasSubstr("identity: all")));
}

// What was refused was not made: the same again is the same intent.
TEST(SuggestIdentityTest, WhatIsSentAgainAfterARefusalIsNoOtherIntent) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    if (i % 5 == 0) traffic.Call("POST", "/orders", Order(i, 1, "a" + N(i)), {422});
    if (i % 5 == 1) traffic.Call("POST", "/orders", Order(i, 1, "x" + N(i)), {429});
    traffic.Call("POST", "/orders", Order(i, 1, "a" + N(i)), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/orders");
  EXPECT_EQ(tool.identity.intents, 25);
  EXPECT_THAT(tool.identity.ignore, ElementsAre("/sent_at"));
}

TEST(SuggestIdentityTest, OtherCallersAndOldFailuresAreNoRepeats) {
  SeenTraffic traffic;
  traffic.Call("POST", "/orders", Order(1, 1, "a"), SeenTraffic::Lost());
  traffic.Call("POST", "/orders", Order(1, 1, "a"), Made(1)).caller = SeenTraffic::HashOf("other");
  traffic.Wait(31 * 60 * 1000);
  traffic.Call("POST", "/orders", Order(1, 1, "a"), Made(2));
  EXPECT_EQ(traffic.Tool("POST", "/orders").identity.repeats, 0);
}

TEST(SuggestIdentityTest, EveryCaptureIsAPartOfTheIdentity) {
  SeenTraffic traffic;
  for (int i = 0; i < 25; ++i) {
    const auto add = [&](const std::string& at, const Answer& answer) {
      traffic.Call("POST", "/carts/c-" + N(i) + "/lines",
                   {{"/sku", "sku-" + N(i % 4)}, {"/at", at, ValueKind::kTime}}, answer);
    };
    if (i % 5 == 0) add("a" + N(i), SeenTraffic::Lost());
    add("b" + N(i), Made(i));
  }
  const SuggestedTool tool = traffic.Tool("POST", "/carts/{id}/lines");
  EXPECT_THAT(tool.identity.identity, ElementsAre("body#/sku", "path.id"));
  EXPECT_THAT(tool.identity.anchors, ElementsAre("path.id"));
}

}  // namespace
}  // namespace recourse::suggest_identity_test
