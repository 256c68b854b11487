// What a drill prints.
#include <gtest/gtest.h>

#include "proxy/base/json/json.h"
#include "proxy/drill/drill_report.h"

namespace recourse::report_test {
namespace {

using Kill = DrillRow::Kill;

DrillRow Row(Kill kill, std::size_t commit, DrillVerdict verdict) {
  return {.kill = kill,
          .commit = commit,
          .at = commit == 0 ? "" : "order DISPATCHING",
          .was_run = true,
          .result = {.verdict = std::move(verdict),
                     .commits = {},
                     .struck = kill == Kill::kNone    ? 0U
                               : kill == Kill::kTwice ? 2U
                                                      : 1U,
                     .story = {"order took effect", "order took effect"},
                     .not_done = {}}};
}

DrillFindings Findings() {
  DrillFindings findings{.policy = "p.yaml", .plan = {}, .rows = {}, .took = Millis(1500)};
  findings.plan.flows.push_back({.name = "shop", .tools = {"order"}, .scenarios = {}});
  findings.plan.flows[0].scenarios.push_back(
      {.what = "every step succeeds", .script = {}, .mishaps = {}});
  const DrillVerdict kept{.effects = 1, .phase = "COMMITTED", .parked = {}, .broken = {}};
  const auto parked = [](const char* number) {
    return DrillVerdict{.effects = 1,
                        .phase = "NEEDS_HUMAN",
                        .parked = std::string("nobody knows order (operation ") + number + ")",
                        .broken = {}};
  };
  findings.rows = {Row(Kill::kNone, 0, kept), Row(Kill::kBefore, 1, kept),
                   Row(Kill::kAfter, 1, parked("3")), Row(Kill::kTwice, 1, parked("5"))};
  return findings;
}

TEST(DrillReport, KillsThatEndAlikeShareALineAndReasonsAreListedOnce) {
  const std::string table = DrillTable(Findings());
  EXPECT_NE(table.find(R"(
shop: order

  every step succeeds
    KILLED        AT THE COMMIT OF   EFFECTS  UNDONE  FLOW         PARKED   PROMISE
    never                            1        0       COMMITTED    -        kept
    before        order DISPATCHING  1        0       COMMITTED    -        kept
    after, twice  order DISPATCHING  1        0       NEEDS_HUMAN  yes (1)  kept
    (1) nobody knows order

promise kept: 1 flow, 4 runs, 4 kills, 2 ended parked for a human, in 1.5 s
)"),
            std::string::npos)
      << table;
}

TEST(DrillReport, ABrokenRunSaysHowAndWhatTheBackendsSaw) {
  DrillFindings findings = Findings();
  findings.rows[2].result.verdict.broken = {"order took effect 2 times"};
  const std::string table = DrillTable(findings);
  EXPECT_NE(table.find(R"(
    BROKEN, killed after the commit of order DISPATCHING:
      order took effect 2 times
      what the backends saw:
        order took effect
        order took effect
)"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("PROMISE BROKEN: 1 flow"), std::string::npos);
  EXPECT_NE(table.find("do not run it"), std::string::npos);
  findings.doubts.key_header = true;
  EXPECT_NE(DrillTable(findings).find("That is what the promise rests on"), std::string::npos);
  EXPECT_FALSE(SumsOf(findings).is_kept());
}

TEST(DrillReport, WhatWasNotRunOrReachedIsToldAndProvesNothing) {
  DrillFindings findings = Findings();
  findings.rows[1].was_run = false;
  findings.rows[2].is_reached = false;
  findings.plan.skipped.push_back({"mail.send", "its backend speaks mcp"});
  const std::string table = DrillTable(findings);
  EXPECT_NE(table.find("NOT PROVEN"), std::string::npos) << table;
  EXPECT_NE(table.find("1 run was not made, for want of time"), std::string::npos);
  EXPECT_NE(table.find("not reached"), std::string::npos);
  EXPECT_NE(table.find("mail.send: its backend speaks mcp"), std::string::npos);
  EXPECT_FALSE(SumsOf(findings).is_kept());
}

TEST(DrillReport, JsonHasEveryRun) {
  const auto json = ParseJson(DrillJson(Findings()));
  ASSERT_TRUE(json);
  EXPECT_EQ(json->Find("kept")->kind, Json::Kind::kTrue);
  ASSERT_EQ(json->Find("rows")->items.size(), 4U);
  const Json& row = json->Find("rows")->items[2];
  EXPECT_EQ(row.Find("killed")->text, "after");
  EXPECT_EQ(row.Find("at")->text, "order DISPATCHING");
  EXPECT_EQ(row.Find("promise")->text, "kept");
  EXPECT_EQ(row.Find("parked")->text, "nobody knows order (operation 3)");
}

TEST(DrillReport, ARunsResultComesWholeOutOfItsProcess) {
  RunResult result{.verdict = {.effects = 2,
                               .undone = 1,
                               .phase = "UNDONE",
                               .parked = "\"why\"",
                               .broken = {"a", "b"}},
                   .commits = {"order DISPATCHING", "flow UNDONE"},
                   .struck = 1,
                   .story = {"order took effect"},
                   .not_done = "order"};
  const auto back = RunResultFromJson(ToJson(result));
  ASSERT_TRUE(back);
  EXPECT_EQ(ToJson(*back), ToJson(result));
  EXPECT_EQ(back->verdict.parked, "\"why\"");
  EXPECT_EQ(back->not_done, "order");
  EXPECT_FALSE(RunResultFromJson(""));
}

}  // namespace
}  // namespace recourse::report_test
