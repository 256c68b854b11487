#include "filters/approval/call_summary.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policy/language/loader.h"

namespace recourse::call_summary_test {
namespace {

std::shared_ptr<const Policy> PolicyWith(const std::string& words) {
  auto loaded = LoadPolicyText("p.yaml",
                               "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n"
                               "  t:\n    match: POST b /mail/{box}\n    effect: write\n"
                               "    reason: r\n    approval: { by: a" +
                                   words + " }\n");
  return loaded.policy;
}

std::string Summary(const std::string& words, const std::string& body,
                    const std::string& type = "application/json") {
  Event claim;
  claim.tool = "t";
  claim.backend = "b";
  claim.method = "POST";
  claim.path = "/mail/inbox";
  claim.request = {"POST", "/mail/inbox", {{"Content-Type", type}}, body};
  return SummaryOf(claim, PolicyWith(words));
}

TEST(CallSummaryTest, ThePolicysWordsAreFilledWithTheCallsValues) {
  const std::string words = ", summary: \"mail to {body#/to} in {path.box}, {body#/cc}\"";
  EXPECT_EQ(Summary(words, R"({"to":"ada","cc":["bob",1.5]})"),
            "mail to ada in inbox, [\"bob\",1.5]");
  EXPECT_EQ(Summary(words, R"({"cc":null})"), "mail to (missing) in inbox, null");
}

TEST(CallSummaryTest, WithoutThemTheFirstValuesTellItApart) {
  EXPECT_EQ(Summary("", R"({"to":"ada","list":[1],"more":{"sum":12.50},"urgent":true,"x":1})"),
            "to: ada, sum: 12.5, urgent: true");
  EXPECT_EQ(Summary("", "to=ada&sum=7", "application/x-www-form-urlencoded"), "to: ada, sum: 7");
  EXPECT_EQ(Summary("", "bytes", "application/octet-stream"), "");
}

TEST(CallSummaryTest, WhatItsNameCallsSecretIsShownOnlyIfThePolicySaysSo) {
  const std::string body = R"({"user_password":"p1","apiKey":"p2","to":"ada"})";
  EXPECT_EQ(Summary("", body), "to: ada");
  EXPECT_EQ(Summary(", summary: \"{body#/apiKey}\"", body), "p2");
}

TEST(CallSummaryTest, LongValuesAreCutBetweenCharacters) {
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xc3\xa9";
  const std::string told = Summary("", "{\"to\":\"x" + accents + "\"}");
  EXPECT_TRUE(IsUtf8(told));
  EXPECT_LT(told.size(), 80U);
  EXPECT_TRUE(told.ends_with("\xe2\x80\xa6"));
}

}  // namespace
}  // namespace recourse::call_summary_test
