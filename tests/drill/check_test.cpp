// The judge of a drill, over logs made by hand.
#include <gtest/gtest.h>

#include "proxy/drill/drill_check.h"

namespace recourse::check_test {
namespace {

using Kind = Action::Kind;

const std::vector<Expected> kCalls{{"order", true}, {"pay", true}, {"mail", false}};

Found Left(std::vector<Action> deeds, const char* flow, std::vector<StepFound> steps) {
  Found found{
      .deeds = std::move(deeds), .flows = {}, .told_done = {}, .is_verified = true, .problem = {}};
  found.flows.push_back({flow, "why", std::move(steps)});
  return found;
}

std::string BrokenBy(const Found& found, bool must_break = false) {
  std::string out;
  for (const std::string& line : Reckon(kCalls, found, must_break).broken) out += line + "\n";
  return out;
}

TEST(DrillCheck, ACompleteFlowKeepsThePromise) {
  const Found found = Left({{Kind::kEffect, 0}, {Kind::kRepeat, 0}, {Kind::kEffect, 1}},
                           "COMMITTED", {{"order", "SUCCEEDED"}, {"pay", "SUCCEEDED"}});
  EXPECT_EQ(BrokenBy(found), "");
  EXPECT_EQ(Reckon(kCalls, found, false).effects, 2U);
  EXPECT_EQ(BrokenBy(found, true), "the flow should have broken, and is COMMITTED\n");
}

TEST(DrillCheck, AFlowThatWasUndoneInReverseKeepsIt) {
  const Found found =
      Left({{Kind::kEffect, 0},
            {Kind::kEffect, 1},
            {Kind::kEffect, 2},
            {Kind::kUndone, 1},
            {Kind::kUndoAgain, 1},
            {Kind::kUndone, 0}},
           "UNDONE", {{"order", "COMPENSATED"}, {"pay", "COMPENSATED"}, {"mail", "SUCCEEDED"}});
  EXPECT_EQ(BrokenBy(found, true), "");
  EXPECT_EQ(Reckon(kCalls, found, true).undone, 2U);
}

TEST(DrillCheck, AParkedFlowKeepsItWithAReason) {
  Found found = Left({{Kind::kEffect, 0}, {Kind::kEffect, 1}, {Kind::kUndone, 1}}, "NEEDS_HUMAN",
                     {{"order", "SUCCEEDED"}, {"pay", "SUCCEEDED"}});
  EXPECT_EQ(BrokenBy(found, true), "") << "nobody knows whether the undo of pay came through";
  EXPECT_EQ(Reckon(kCalls, found, true).parked, "why");
  found.flows[0].reason.clear();
  EXPECT_EQ(BrokenBy(found, true), "the flow is parked without a reason\n");
}

TEST(DrillCheck, AnEffectThatCameTwiceBreaksIt) {
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}, {Kind::kEffect, 0}}, "COMMITTED",
                          {{"order", "SUCCEEDED"}})),
            "order took effect 2 times\n");
}

TEST(DrillCheck, AnUndoThatActedTwiceBreaksIt) {
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}, {Kind::kUndone, 0}, {Kind::kUndone, 0}}, "UNDONE",
                          {{"order", "COMPENSATED"}})),
            "the effect of order was undone 2 times\n");
}

TEST(DrillCheck, AnEffectThatTheLogDeniesOrDoesNotKnowBreaksIt) {
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}}, "OPEN", {{"order", "PROVEN_ABSENT"}})),
            "order took effect, and the log says PROVEN_ABSENT\n");
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}, {Kind::kEffect, 1}}, "COMMITTED",
                          {{"order", "SUCCEEDED"}})),
            "pay took effect, and the log knows nothing of it\n");
}

TEST(DrillCheck, AnEffectThatNeverWasBreaksIt) {
  Found found = Left({}, "COMMITTED", {{"order", "SUCCEEDED"}});
  found.told_done = {true, false, false};
  EXPECT_EQ(BrokenBy(found),
            "the log says SUCCEEDED of order, which had no effect\n"
            "the agent was told that order is done, which had no effect\n");
}

TEST(DrillCheck, AnUndoThatTheLogClaimsAndNobodyDidBreaksIt) {
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}}, "UNDONE", {{"order", "COMPENSATED"}})),
            "the log says that order is undone, but its effect stands\n"
            "order stands, and its flow is said to be undone\n");
}

TEST(DrillCheck, TheWrongOrderBreaksIt) {
  EXPECT_EQ(BrokenBy(Left(
                {{Kind::kEffect, 0}, {Kind::kEffect, 1}, {Kind::kUndone, 0}, {Kind::kUndone, 1}},
                "UNDONE", {{"order", "COMPENSATED"}, {"pay", "COMPENSATED"}})),
            "pay was undone after order, which came before it\n");
}

TEST(DrillCheck, AWriteThatPassedTheFenceBreaksIt) {
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}, {Kind::kUndone, 0}, {Kind::kEffect, 2}}, "UNDONE",
                          {{"order", "COMPENSATED"}, {"mail", "SUCCEEDED"}})),
            "mail took effect while its flow was being undone\n");
}

TEST(DrillCheck, AFlowThatWasForgottenBreaksIt) {
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}}, "BREAKING", {{"order", "SUCCEEDED"}})),
            "the flow did not come to an end: it is BREAKING\n");
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}}, "OPEN", {{"order", "UNCERTAIN"}})),
            "order is forgotten: UNCERTAIN, and its flow is OPEN\n");
  EXPECT_EQ(BrokenBy(Left({{Kind::kEffect, 0}, {Kind::kUndone, 0}}, "COMMITTED",
                          {{"order", "COMPENSATED"}})),
            "order was undone, and its flow is complete\n");
}

TEST(DrillCheck, ADamagedLedgerAndARunThatDidNotEndBreakIt) {
  Found found = Left({{Kind::kEffect, 0}}, "COMMITTED", {{"order", "SUCCEEDED"}});
  found.is_verified = false;
  EXPECT_EQ(BrokenBy(found), "the ledger does not verify\n");
  found.problem = "Recourse ended by itself: exit code 78";
  EXPECT_EQ(BrokenBy(found), "Recourse ended by itself: exit code 78\n");
  EXPECT_EQ(BrokenBy({.deeds = {{Kind::kStrange, 0, "POST /x"}},
                      .flows = {},
                      .told_done = {},
                      .is_verified = true,
                      .problem = {}}),
            "the backend was asked for what no call explains: POST /x\n"
            "the log knows of no flow\n");
}

}  // namespace
}  // namespace recourse::check_test
