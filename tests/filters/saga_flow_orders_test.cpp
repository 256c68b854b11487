// What operators do to flows, and what stands in their way.
#include <gtest/gtest.h>

#include "tests/filters/saga_shop.h"

namespace recourse::saga_flow_orders_test {
namespace {

using Kind = FlowAction::Kind;
constexpr Kind kAll[] = {Kind::kClose, Kind::kCancel,    Kind::kUndo,     Kind::kRetry,
                         Kind::kDone,  Kind::kNotNeeded, Kind::kHappened, Kind::kAbsent};

// The flow of one order, brought to a phase.
class FlowOrdersTest : public testing::Test {
 protected:
  FlowOrdersTest() {
    world.StartSettler();
    world.StartFlows();
    (void)world.Call(Write("orders"));
  }
  // Parked: nobody knows whether the undo of the message took effect.
  void ParkOnUndo() {
    (void)world.Call(Write("messages"));
    world.instead.emplace("DELETE /messages", CutAfterSend());
    Break();
    Pass(5);
    ASSERT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  }
  // Parked: nobody knows whether the message was sent.
  void ParkOnUnknown() {
    world.instead.emplace("POST /messages", CutAfterSend());
    (void)world.Call(Write("messages"));
    Pass(120);
    ASSERT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  }
  void Break() {
    world.instead.emplace("POST /shipments", Respond(422, "{}"));
    (void)world.Call(Write("shipments"));
  }
  void Pass(int seconds) { world.loop.RunFor(Millis(1'000 * seconds)); }
  std::uint64_t Operation(std::size_t index) { return world.Flow().steps.at(index).operation; }
  void ExpectOnly(std::initializer_list<Kind> allowed, std::uint64_t operation) {
    for (const Kind kind : kAll) {
      if (std::find(allowed.begin(), allowed.end(), kind) != allowed.end()) continue;
      const FlowPhase before = world.PhaseOf();
      const auto said = world.Act(kind, operation);
      EXPECT_FALSE(said) << static_cast<int>(kind);
      if (!said) EXPECT_FALSE(said.error().empty());
      EXPECT_EQ(world.PhaseOf(), before) << static_cast<int>(kind);
    }
  }
  Checkout world;
};

TEST_F(FlowOrdersTest, AnOpenFlowIsClosedOrCanceledAndNothingElse) {
  ExpectOnly({Kind::kClose, Kind::kCancel}, Operation(0));
  ASSERT_TRUE(world.Act(Kind::kCancel));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  ExpectOnly({}, Operation(0));
}

TEST_F(FlowOrdersTest, AClosedFlowStaysUntilSomebodyUndoesIt) {
  ASSERT_TRUE(world.Act(Kind::kClose));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted);
  Pass(60);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  ExpectOnly({Kind::kUndo}, Operation(0));
  ASSERT_TRUE(world.Act(Kind::kUndo));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(Sent(world).back(), "DELETE /orders/id-1");
}

TEST_F(FlowOrdersTest, ARetryOfWhatIsStuckSendsItOnceMore) {
  ParkOnUndo();
  const std::size_t before = world.upstream.writes.size();
  ASSERT_TRUE(world.Act(Kind::kRetry));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.upstream.writes.size(), before + 2);
}

TEST_F(FlowOrdersTest, ARetryThatFailsParksAgain) {
  ParkOnUndo();
  const std::size_t before = world.upstream.writes.size();
  for (int i = 0; i < 3; ++i) world.instead.emplace("DELETE /messages", CutAfterSend());
  ASSERT_TRUE(world.Act(Kind::kRetry));
  Pass(600);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(world.upstream.writes.size(), before + 1) << "a human's word is good for one try";
}

TEST_F(FlowOrdersTest, WhatWasUndoneByHandIsNotUndoneAgain) {
  ParkOnUndo();
  ExpectOnly({Kind::kClose, Kind::kRetry, Kind::kDone, Kind::kNotNeeded}, Operation(1));
  ASSERT_TRUE(world.Act(Kind::kDone, Operation(1)));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.StepPhase(1), Phase::kCompensated);
  EXPECT_EQ(Sent(world).back(), "DELETE /orders/id-1");
}

TEST_F(FlowOrdersTest, WhatMayStayStays) {
  ParkOnUndo();
  ASSERT_TRUE(world.Act(Kind::kNotNeeded, Operation(1)));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.StepPhase(1), Phase::kSucceeded);
  EXPECT_EQ(world.StepPhase(0), Phase::kCompensated);
}

TEST_F(FlowOrdersTest, AnUnknownStepIsDecidedByAHumanBeforeAnythingElse) {
  ParkOnUnknown();
  ExpectOnly({Kind::kClose, Kind::kRetry, Kind::kHappened, Kind::kAbsent}, Operation(1));
  ASSERT_TRUE(world.Act(Kind::kAbsent, Operation(1)));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.StepPhase(1), Phase::kProvenAbsent);
  EXPECT_EQ(Sent(world).back(), "DELETE /orders/id-1");
}

TEST_F(FlowOrdersTest, AnEffectThatAHumanFoundHasToBeUndoneByThatHuman) {
  ParkOnUnknown();
  ASSERT_TRUE(world.Act(Kind::kHappened, Operation(1)));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman) << "no undo request was ever rendered";
  ASSERT_TRUE(world.Act(Kind::kDone, Operation(1)));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowOrdersTest, WhatAHumanHasSaidIsSeenToThoughNobodyCanReadTheFlow) {
  ParkOnUnknown();
  world.ledger.flows_fail = true;
  EXPECT_FALSE(world.Act(Kind::kAbsent, Operation(1)));
  Pass(2);
  world.ledger.flows_fail = false;
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowOrdersTest, AParkedFlowIsClosedWithWhatIsLeft) {
  ParkOnUndo();
  ASSERT_TRUE(world.Act(Kind::kClose));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted);
  Pass(60);
  EXPECT_EQ(world.StepPhase(0), Phase::kSucceeded);
}

TEST_F(FlowOrdersTest, WhatDoesNotExistIsNamed) {
  ParkOnUndo();
  const auto step = world.Act(Kind::kDone, 4'711);
  ASSERT_FALSE(step);
  EXPECT_NE(step.error().find("4711"), std::string::npos);
  const auto flow = world.Act({.kind = Kind::kClose, .number = 4'711, .reason = ""});
  ASSERT_FALSE(flow);
  EXPECT_NE(flow.error().find("4711"), std::string::npos);
}

TEST_F(FlowOrdersTest, AFailedLedgerMovesNothing) {
  world.ledger.record_fails = true;
  EXPECT_FALSE(world.Act(Kind::kCancel));
  world.ledger.record_fails = false;
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kOpen);
}

}  // namespace
}  // namespace recourse::saga_flow_orders_test
