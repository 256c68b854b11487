// What an export of observe mode tells of another policy.
#include "policy/explain/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "tests/policy/policy_builder.h"

namespace recourse::replay_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPolicy = R"(
backends: { shop: { url: "http://shop" }, door: { url: "http://door/mcp", protocol: mcp } }
tools:
  whole: { match: POST shop /whole, effect: write, reason: r, identity: all }
  named: { match: POST shop /named, effect: write, reason: r, identity: body#/id }
  asked: { match: POST shop /asked, effect: write, approval: { by: ann } }
  large: { match: POST shop /large, effect: write, approval: { by: ann, when: body#/n > 1 } }
  some: { match: POST shop /some, effect: write, reason: r, allow: body#/n == 1 }
  read: { match: POST shop /read, effect: read }
unlisted: { writes: deny }
)";

struct Row {
  std::string path, verdict, tool = "unlisted.shop", backend = "shop";
};

ReplayVerdict Of(const Row& row) {
  std::istringstream in(R"({"event_id":7,"operation":7,"tool":")" + row.tool + R"(","backend":")" +
                        row.backend + R"(","caller":"local","trace_id":"t",)" +
                        R"("method":"POST","path":")" + row.path + R"(","verdict":")" +
                        row.verdict + "\"}\n");
  const auto calls = ReadExport(in);
  EXPECT_TRUE(calls && calls->size() == 1);
  return ReplayCall(calls->front(), *LoadGood(kPolicy), nullptr);
}

TEST(ReplayTest, TheVerdictOfObserveModeHoldsWhereTheKeyIsMadeOfTheSame) {
  EXPECT_EQ(Of({"/whole", "fresh"}).counted, &ObservedCounts::sent);
  EXPECT_EQ(Of({"/whole", "would_replay"}).counted, &ObservedCounts::replayed);
  EXPECT_EQ(Of({"/whole", "would_join"}).counted, &ObservedCounts::joined);
  EXPECT_EQ(Of({"/whole", "would_be_unknown"}).counted, &ObservedCounts::in_doubt);
  EXPECT_EQ(Of({"/whole", "not_judged"}).counted, &ObservedCounts::untold);
  EXPECT_EQ(Of({"/large", "fresh"}).counted, &ObservedCounts::sent);
  EXPECT_EQ(Of({"/asked", "fresh"}).counted, &ObservedCounts::asks);
  EXPECT_EQ(Of({"/asked", "would_replay"}).counted, &ObservedCounts::replayed);
  EXPECT_EQ(Of({"/whole", "fresh"}).tool, "whole");
  EXPECT_THAT(Of({"/whole", "fresh"}).group, IsEmpty()) << "nothing was kept that could change";
}

TEST(ReplayTest, WhatArgumentsDecideAnExportDoesNotTell) {
  for (const Row& row : {Row{"/named", "fresh"}, Row{"/some", "fresh"},
                         Row{"/whole", "fresh", "other"}, Row{"/mcp", "fresh", "x", "door"}}) {
    EXPECT_EQ(Of(row).counted, &ObservedCounts::untold) << row.path;
  }
  EXPECT_THAT(Of({"/some", ""}).key_unknown, HasSubstr("`deny` or `allow` reads them"));
  EXPECT_THAT(Of({"/some", ""}).group, testing::Not(HasSubstr("refused")));
}

TEST(ReplayTest, WhatIsRefusedOrReadHasNoKey) {
  EXPECT_EQ(Of({"/none", "fresh"}).counted, &ObservedCounts::refused);
  EXPECT_EQ(Of({"/read", "fresh"}).counted, nullptr);
}

}  // namespace
}  // namespace recourse::replay_test
