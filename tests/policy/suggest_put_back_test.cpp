#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/suggest/tool_verdict.h"
#include "tests/policy/seen_traffic.h"

namespace recourse::suggest_put_back_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string N(int number) { return std::to_string(number); }

SeenMember Phone(int n) { return {"/phone", "0" + N(n)}; }
SeenMember Name(int n) { return {"/name", "Ada " + N(n), ValueKind::kText}; }

// `count` members are read, changed and read again.
SeenTraffic Changed(const std::string& method, int count, const SeenMembers& also_shown = {}) {
  SeenTraffic traffic;
  for (int i = 0; i < count; ++i) {
    const auto shows = [&](int phone) {
      SeenMembers shown{Phone(phone), Name(i)};
      shown.insert(shown.end(), also_shown.begin(), also_shown.end());
      return SeenTraffic::Answer{200, shown};
    };
    const std::string path = "/members/" + N(100 + i);
    traffic.Call("GET", path, {}, shows(i));
    SeenMembers sent{Phone(900 + i)};
    if (method == "PUT") sent.push_back(Name(i));
    traffic.Call(method, path, sent, shows(900 + i));
    traffic.Call("GET", path, {}, shows(900 + i));
  }
  return traffic;
}

std::string TextOf(const SeenTraffic& traffic) {
  Suggestion made = SuggestTools(traffic.seen, {});
  std::string text = ToolsText(made);
  EXPECT_THAT(made.left_out, IsEmpty()) << text;
  return text;
}

TEST(SuggestPutBackTest, WhatAReadShowedBeforeIsPutBackByThePatch) {
  const SeenTraffic traffic = Changed("PATCH", 3, {{"/id", "7"}});
  const SuggestedTool tool = traffic.Tool("PATCH", "/members/{id}");
  ASSERT_TRUE(tool.links.put_back);
  EXPECT_EQ(tool.links.put_back->shown, 3);
  EXPECT_THAT(tool.links.put_back->members, ElementsAre("phone"));
  EXPECT_FALSE(VerdictOf(tool).must_decide);
  const std::string text = TextOf(traffic);
  EXPECT_THAT(text, HasSubstr("before: { request: \"GET /members/{path.id}\", "
                              "keep: [ \"body#/phone\" ] }"));
  EXPECT_THAT(text, HasSubstr("undo: { request: \"PATCH /members/{path.id}\", json: { \"phone\": "
                              "\"{before.body#/phone}\" }, only_if: unchanged"));
}

// All that any of its calls has set.
TEST(SuggestPutBackTest, EveryMemberThatSomeCallSetsIsKept) {
  SeenTraffic traffic = Changed("PATCH", 3);
  traffic.Call("PATCH", "/members/100", {Name(5)}, {});
  EXPECT_FALSE(traffic.Tool("PATCH", "/members/{id}").links.put_back) << "no read showed it yet";
  traffic.Call("GET", "/members/100", {}, {200, {Phone(900), Name(5)}});
  EXPECT_THAT(traffic.Tool("PATCH", "/members/{id}").links.put_back->members,
              ElementsAre("name", "phone"));
}

TEST(SuggestPutBackTest, APutGoesBackWhole) {
  const std::string text = TextOf(Changed("PUT", 3));
  EXPECT_THAT(text, HasSubstr("keep: [ \"body#\" ] }"));
  EXPECT_THAT(text, HasSubstr("undo: { request: \"PUT /members/{path.id}\", json: "
                              "\"{before.body#}\", only_if: unchanged"));
}

// What the read shows besides may not be taken by the PUT, or be lost with it.
TEST(SuggestPutBackTest, APutThatSetsLessThanIsShownIsLeftOpen) {
  EXPECT_FALSE(Changed("PUT", 3, {{"/id", "7"}}).Tool("PUT", "/members/{id}").links.put_back);
}

TEST(SuggestPutBackTest, WhatIsNotShownIsLeftOpen) {
  SeenTraffic hidden = Changed("PATCH", 3);
  hidden.Call("PATCH", "/members/100", {{"/password", "x"}}, {});
  const SuggestedTool tool = hidden.Tool("PATCH", "/members/{id}");
  EXPECT_FALSE(tool.links.put_back);
  EXPECT_TRUE(VerdictOf(tool).must_decide);
  // A read that now and then lacks it.
  SeenTraffic lacks = Changed("PATCH", 3);
  lacks.Call("GET", "/members/300", {}, {200, {Name(1)}});
  EXPECT_FALSE(lacks.Tool("PATCH", "/members/{id}").links.put_back);
}

// A read that shows something else: the call does not set what is read there.
TEST(SuggestPutBackTest, ReadsHaveToShowWhatWasSet) {
  EXPECT_FALSE(Changed("PATCH", 1).Tool("PATCH", "/members/{id}").links.put_back);
  SeenTraffic traffic = Changed("PATCH", 3);
  for (int i = 0; i < 2; ++i) {
    traffic.Call("PATCH", "/members/" + N(200 + i), {Phone(5)}, {});
    traffic.Call("GET", "/members/" + N(200 + i), {}, {200, {Phone(6), Name(1)}});
  }
  EXPECT_FALSE(traffic.Tool("PATCH", "/members/{id}").links.put_back);
  EXPECT_THAT(TextOf(traffic), Not(HasSubstr("before:")));
}

// One call in many sets a secret, and its read shows asterisks.
TEST(SuggestPutBackTest, WhatAReadHidesIsLeftOpen) {
  SeenTraffic traffic = Changed("PATCH", 20, {{"/pin", "****"}});
  ASSERT_TRUE(traffic.Tool("PATCH", "/members/{id}").links.put_back);
  traffic.Call("PATCH", "/members/100", {{"/pin", "1234"}}, {});
  traffic.Call("GET", "/members/100", {}, {200, {Phone(900), Name(0), {"/pin", "****"}}});
  EXPECT_FALSE(traffic.Tool("PATCH", "/members/{id}").links.put_back);
}

// Another thing's read tells nothing of it, nor does one of a call that was refused.
TEST(SuggestPutBackTest, OnlyReadsOfTheSameThingCount) {
  SeenTraffic traffic;
  for (int i = 0; i < 5; ++i) {
    traffic.Call("PATCH", "/members/" + N(i + 1), {Phone(7)}, {});
    traffic.Call("GET", "/members/" + N(i + 50), {}, {200, {Phone(7)}});
    traffic.Call("PATCH", "/members/" + N(i + 80), {Phone(8)}, {422});
    traffic.Call("GET", "/members/" + N(i + 80), {}, {200, {Phone(8)}});
  }
  EXPECT_FALSE(traffic.Tool("PATCH", "/members/{id}").links.put_back);
}

}  // namespace
}  // namespace recourse::suggest_put_back_test
