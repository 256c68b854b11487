// What the ledger knows of flows: fences, undo operations, moves, and all of it after a restart.
#include "filters/ledger/model/flow.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "proxy/base/limits.h"
#include "tests/ledger/flow_fixture.h"

namespace recourse::flow_test {
namespace {

using Kind = Begun::Kind;

TEST_P(FlowTest, TheFirstStepOpensAFlowAndTheOthersJoinIt) {
  const Event first = Done("a");
  const Event second = Dispatch(Step("b"));
  Dispatch(Step("other", "flow-2"));
  Restart();
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 2U);
  EXPECT_EQ(flows[0].number, first.operation);
  EXPECT_EQ(flows[0].id, "flow-1");
  EXPECT_EQ(flows[0].caller, "agent-1");
  EXPECT_EQ(flows[0].phase, FlowPhase::kOpen);
  ASSERT_EQ(flows[0].steps.size(), 2U);
  EXPECT_EQ(flows[0].steps[0].phase, Phase::kSucceeded);
  EXPECT_TRUE(flows[0].steps[0].has_undo);
  EXPECT_EQ(flows[0].steps[0].success, first.id);
  EXPECT_EQ(flows[0].steps[1].operation, second.operation);
  EXPECT_EQ(ledger_->Stats().flows_open, 2U);
}

TEST_P(FlowTest, WhatIsNoStepOpensNoFlow) {
  Dispatch(Call("a"));
  EXPECT_TRUE(Flows().empty());
}

TEST_P(FlowTest, ABrokenFlowTakesNoNewStepAndTheOthersDo) {
  const Event first = Done("a");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  Restart();
  const Begun refused = Begin(Step("b"));
  EXPECT_EQ(refused.kind, Kind::kFlowClosed);
  EXPECT_EQ(refused.flow, first.operation);
  EXPECT_EQ(Begin(Step("b", "flow-2")).kind, Kind::kFresh);
  // What was done stays done, until it is undone.
  EXPECT_EQ(Begin(Step("a")).kind, Kind::kReplay);
}

TEST_P(FlowTest, ARefusedStepIsNotTriedAgainBehindTheFence) {
  const Event first = Done("a");
  const Event second = Dispatch(Step("b"));
  Record(Move(second, Phase::kNotSent, Cause::kConnectFailed));
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  EXPECT_EQ(Begin(Step("b")).kind, Kind::kFlowClosed);
}

TEST_P(FlowTest, AnUnknownStepStaysUnknownBehindTheFenceUnlessItIsResentToSettleIt) {
  const Event first = Dispatch(Step("a"));
  Record(Move(first, Phase::kUncertain, Cause::kTimeout));
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  NewOperation repeat = Step("a");
  repeat.may_resend = true;
  EXPECT_EQ(Begin(repeat).kind, Kind::kUnknown);
  repeat.passes_fence = true;
  repeat.event.operation = first.operation;
  EXPECT_EQ(Begin(repeat).kind, Kind::kFresh);
}

TEST_P(FlowTest, AnOutcomeMovesItsFlowInTheSameCommit) {
  const Event first = Done("a");
  Transition refusal = Move(Dispatch(Step("b")), Phase::kRejected);
  refusal.flow = Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kStepFailed, "b failed"};
  const std::uint64_t commits = ledger_->Stats().commits;
  Record(std::move(refusal));
  EXPECT_EQ(ledger_->Stats().commits, commits + 1);
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].phase, FlowPhase::kBreaking);
  EXPECT_EQ(flows[0].cause, FlowCause::kStepFailed);
  EXPECT_EQ(flows[0].number, first.operation);
}

TEST_P(FlowTest, UndoingNeedsKnownOutcomesAndUndoneNeedsEveryUndo) {
  const Event first = Done("a");
  const Event second = Dispatch(Step("b"));
  const std::uint64_t number = first.operation;
  MoveTo(number, FlowPhase::kOpen, FlowPhase::kBreaking);
  EXPECT_FALSE(TryMove(number, FlowPhase::kBreaking, FlowPhase::kUndoing));
  Record(Move(second, Phase::kRejected));
  MoveTo(number, FlowPhase::kBreaking, FlowPhase::kUndoing);
  EXPECT_FALSE(TryMove(number, FlowPhase::kUndoing, FlowPhase::kUndone));
  EXPECT_FALSE(TryMove(number, FlowPhase::kOpen, FlowPhase::kBreaking));
}

TEST_P(FlowTest, EmptyCompensationNothingIsUndoneThatHadNoEffect) {
  const Event first = Done("a");
  const Event second = Record(Move(Dispatch(Step("b")), Phase::kRejected));
  // Not while the flow is open, either.
  const auto early = Await(ledger_->Begin(UndoOf(first), executor_), executor_);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code(), ErrorCode::kInternal);
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(first.operation, FlowPhase::kBreaking, FlowPhase::kUndoing);
  EXPECT_FALSE(Await(ledger_->Begin(UndoOf(second), executor_), executor_));
  EXPECT_EQ(Begin(UndoOf(first)).kind, Kind::kFresh);
}

TEST_P(FlowTest, AnUndoAndItsStepAreFinishedInOneCommit) {
  const Event first = Done("a");
  const std::uint64_t number = first.operation;
  MoveTo(number, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(number, FlowPhase::kBreaking, FlowPhase::kUndoing);
  const Event undo = Dispatch(UndoOf(first));
  EXPECT_EQ(undo.undoes, first.operation);
  const std::uint64_t commits = ledger_->Stats().commits;
  Record(Success(undo));
  EXPECT_EQ(ledger_->Stats().commits, commits + 1);
  Restart();
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 1U);
  ASSERT_EQ(flows[0].steps.size(), 1U);
  EXPECT_EQ(flows[0].steps[0].phase, Phase::kCompensated);
  EXPECT_EQ(flows[0].steps[0].undo, undo.operation);
  EXPECT_EQ(flows[0].steps[0].undo_phase, Phase::kSucceeded);
  EXPECT_EQ(Begin(Step("a")).kind, Kind::kCompensated);
  EXPECT_EQ(Begin(Step("a")).event.cause, Cause::kUndone);
  MoveTo(number, FlowPhase::kUndoing, FlowPhase::kUndone);
  EXPECT_TRUE(Flows().empty());
}

TEST_P(FlowTest, RepeatedCompensationTheUndoOfAStepIsOneOperation) {
  const Event first = Done("a");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(first.operation, FlowPhase::kBreaking, FlowPhase::kUndoing);
  const Event undo = Dispatch(UndoOf(first));
  EXPECT_EQ(Begin(UndoOf(first)).kind, Kind::kRunning);
  Record(Success(undo));
  // The step is COMPENSATED, so that no further undo of it may begin.
  EXPECT_EQ(Begin(UndoOf(first)).kind, Kind::kReplay);
}

TEST_P(FlowTest, AnUndoneFlowStaysFencedAndACommittedOneDoesNot) {
  const Event first = Done("a");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(first.operation, FlowPhase::kBreaking, FlowPhase::kUndoing);
  Record(Success(Dispatch(UndoOf(first))));
  MoveTo(first.operation, FlowPhase::kUndoing, FlowPhase::kUndone);
  const Event other = Done("o", "flow-2");
  MoveTo(other.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  Restart();
  EXPECT_EQ(Begin(Step("b")).kind, Kind::kFlowClosed);
  const Event next = Dispatch(Step("p", "flow-2"));
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].number, next.operation);
  EXPECT_EQ(flows[0].steps.size(), 1U);
}

TEST_P(FlowTest, AStepThatWasOnItsWayWhenItsFlowEndedBeginsNoOther) {
  const Event first = Done("a");
  const Event late = Dispatch(Step("late"));
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  Record(Success(late));
  EXPECT_TRUE(Flows().empty());
  Restart();
  EXPECT_TRUE(Flows().empty());
  const Event next = Dispatch(Step("next"));
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].number, next.operation);
  EXPECT_EQ(flows[0].steps.size(), 1U);
}

TEST_P(FlowTest, AFlowKnowsThePolicyOfItsDeadlineAndThoseOfItsOtherSteps) {
  const auto step = [](std::string_view key, std::string flow, bool has_deadline,
                       std::string version) {
    NewOperation call = Step(key);
    call.event.flow_name = std::move(flow);
    call.event.flow_has_deadline = has_deadline;
    call.event.policy_version = std::move(version);
    return call;
  };
  Record(Success(Dispatch(step("a", "", false, "v1"))));
  Record(Success(Dispatch(step("b", "checkout", false, "v2"))));
  Record(Success(Dispatch(step("c", "other", true, "v2"))));
  EXPECT_FALSE(Flows()[0].has_deadline) << "that is of another flow of the policy";
  Record(Success(Dispatch(step("d", "checkout", true, "v3"))));
  Record(Success(Dispatch(step("e", "checkout", true, "v4"))));
  for (int start = 0; start < 2; ++start) {
    const auto flows = Flows();
    ASSERT_EQ(flows.size(), 1U);
    EXPECT_EQ(flows[0].name, "checkout");
    EXPECT_TRUE(flows[0].has_deadline);
    EXPECT_EQ(flows[0].policy_version, "v3");
    EXPECT_EQ(flows[0].other_versions, (std::vector<std::string>{"v1", "v2", "v4"}));
    Restart();
  }
}

TEST_P(FlowTest, AMoveIsRefusedWhileAStepThatDecidesWasNotSeen) {
  const Event first = Done("a");
  const auto seen = Find(first.operation);
  const auto move = [&](const FlowState& as_seen, const std::string& deciding) {
    FlowMove deadline{.number = first.operation,
                      .to = FlowPhase::kBreaking,
                      .reason = "late",
                      .deciding = {"other", deciding}};
    for (const auto& at : as_seen.steps) deadline.seen.push_back({at.operation, {}, at.phase});
    return Await(ledger_->MoveFlow(std::move(deadline), executor_), executor_).has_value();
  };
  const Event second = Dispatch(Step("b"));
  EXPECT_FALSE(move(*seen, second.tool)) << "it was sent meanwhile";
  const auto sent = Find(first.operation);
  Record(Move(second, Phase::kUncertain, Cause::kTimeout));
  EXPECT_FALSE(move(*sent, second.tool)) << "it has moved on";
  EXPECT_EQ(Find(first.operation)->phase, FlowPhase::kOpen);
  EXPECT_TRUE(move(*seen, "third")) << "it decides nothing";
}

// What the ledger forgets by itself; the one in PostgreSQL does not yet.
class ForgottenFlowTest : public FlowTest {};

TEST_P(ForgottenFlowTest, AnIdleFlowMakesRoomAndOneWithADeadlineStays) {
  const Event idle = Done("a");
  NewOperation declared = Step("d", "flow-2");
  declared.event.flow_name = "checkout";
  declared.event.flow_has_deadline = true;
  Record(Success(Dispatch(std::move(declared))));
  const Event unknown = Dispatch(Step("u", "flow-3"));
  Record(Move(unknown, Phase::kUncertain, Cause::kTimeout));
  clock_.Advance(limits::kFlowIdle + Millis(1));
  Dispatch(Step("later", "flow-4"));
  std::vector<std::string> left;
  for (const FlowState& flow : Flows()) left.push_back(flow.id);
  EXPECT_EQ(left, (std::vector<std::string>{"flow-2", "flow-3", "flow-4"}));
  const auto found = Find(idle.operation);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->phase, FlowPhase::kCommitted);
  EXPECT_EQ(found->cause, FlowCause::kIdle);
}

TEST_P(FlowTest, AStepStaysInItsFlowWhateverItsRepeatSays) {
  const Event first = Dispatch(Step("a"));
  Record(Move(first, Phase::kNotSent, Cause::kConnectFailed));
  NewOperation repeat = Step("a", "flow-2");
  const Event again = Dispatch(std::move(repeat));
  EXPECT_EQ(again.flow, "flow-1");
  EXPECT_EQ(Flows().size(), 1U);
}

TEST_P(FlowTest, AHumansWordEndsAStep) {
  const Event first = Done("a");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(first.operation, FlowPhase::kBreaking, FlowPhase::kUndoing);
  MoveTo(first.operation, FlowPhase::kUndoing, FlowPhase::kNeedsHuman);
  EXPECT_EQ(ledger_->Stats().flows_parked, 1U);
  FlowMove move{.number = first.operation,
                .from = FlowPhase::kNeedsHuman,
                .to = FlowPhase::kBreaking,
                .cause = FlowCause::kHuman,
                .reason = "it was a gift",
                .not_needed = {{first.operation, first.key}}};
  ASSERT_TRUE(Await(ledger_->MoveFlow(std::move(move), executor_), executor_));
  Restart();
  MoveTo(first.operation, FlowPhase::kBreaking, FlowPhase::kUndoing);
  EXPECT_FALSE(Await(ledger_->Begin(UndoOf(first), executor_), executor_));
  MoveTo(first.operation, FlowPhase::kUndoing, FlowPhase::kUndone);
}

TEST_P(FlowTest, AnOutcomeThatComesAfterItsFlowIsOverOpensNoOther) {
  const Event slow = Dispatch(Step("a"));
  MoveTo(slow.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  Transition transition = Success(slow);
  transition.undo = RenderedRequest{"DELETE", "/orders/7", {}, ""};
  const Event done = Record(transition);
  EXPECT_TRUE(Flows().empty());
  Restart();
  EXPECT_TRUE(Flows().empty());
  const auto found = Find(slow.operation);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->phase, FlowPhase::kCommitted);
  ASSERT_EQ(found->steps.size(), 1U);
  EXPECT_EQ(found->steps[0].phase, Phase::kSucceeded);
  EXPECT_EQ(found->steps[0].success, done.id) << "an operator may still undo it in order";
}

TEST_P(FlowTest, AnOutcomeThatComesAfterItsFlowIsOverDoesNothingToTheNextOneOfItsName) {
  const Event slow = Dispatch(Step("a"));
  MoveTo(slow.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  const Event next = Dispatch(Step("b"));
  Transition transition = Success(slow);
  transition.flow = Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kStepFailed, "why"};
  Record(transition);
  Restart();
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].number, next.id);
  EXPECT_EQ(flows[0].phase, FlowPhase::kOpen);
  ASSERT_EQ(flows[0].steps.size(), 1U);
  EXPECT_EQ(flows[0].steps[0].operation, next.operation);
}

TEST_P(FlowTest, AStepMadeAgainAfterItsFlowIsOverBeginsAnotherOneOfItsOwnNumber) {
  const Event first = Dispatch(Step("a"));
  Transition refused;
  refused.operation = first.operation;
  refused.attempt = first.attempt;
  refused.to = Phase::kNotSent;
  Record(refused);
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  const Event second = Dispatch(Step("a"));
  EXPECT_EQ(second.operation, first.operation);
  Restart();
  const auto flows = Flows();
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].number, second.id);
  EXPECT_EQ(flows[0].steps[0].operation, first.operation);
  const auto old = Find(first.operation);
  ASSERT_TRUE(old);
  EXPECT_EQ(old->phase, FlowPhase::kCommitted);
  ASSERT_TRUE(Find(second.id));
  EXPECT_EQ(Find(second.id)->phase, FlowPhase::kOpen);
}

TEST_P(ForgottenFlowTest, RetentionKeepsTheStepsOfAFlowThatIsNotOver) {
  const Event first = Done("a");
  const Event second = Done("b");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(first.operation, FlowPhase::kBreaking, FlowPhase::kNeedsHuman);
  const Event gone = Done("g", "flow-2");
  ledger_->SetRule({.retention = Millis(10'000), .tombstones = Millis(3'600'000)});
  for (int i = 0; i < 8; ++i) {
    clock_.Advance(Millis(5'000));
    Dispatch(Step("filler" + std::to_string(i), "flow-f" + std::to_string(i)));
  }
  for (int tries = 0; tries < 1'000 && ledger_->Stats().first_id <= gone.id; ++tries) {
    clock_.Advance(Millis(1'000));
    (void)Begin(Call("tick" + std::to_string(tries)));
  }
  ASSERT_GT(ledger_->Stats().first_id, gone.id);
  Restart();
  const auto flows = Flows();
  ASSERT_FALSE(flows.empty());
  EXPECT_EQ(flows[0].number, first.operation);
  EXPECT_EQ(flows[0].phase, FlowPhase::kNeedsHuman);
  ASSERT_EQ(flows[0].steps.size(), 2U);
  EXPECT_LT(flows[0].steps[0].success, flows[0].steps[1].success);
  const auto step = Await(ledger_->Join(second.operation, clock_.Now(), executor_), executor_);
  ASSERT_TRUE(step && *step);
  EXPECT_TRUE((*step)->undo);
}

INSTANTIATE_TEST_SUITE_P(Stores, FlowTest,
                         testing::Values(FlowStore::kMemory, FlowStore::kLmdb,
                                         FlowStore::kLmdbWithoutIndex, FlowStore::kPostgres),
                         [](const auto& of) { return NameOf(of.param); });
INSTANTIATE_TEST_SUITE_P(Stores, ForgottenFlowTest,
                         testing::Values(FlowStore::kMemory, FlowStore::kLmdb,
                                         FlowStore::kLmdbWithoutIndex),
                         [](const auto& of) { return NameOf(of.param); });

}  // namespace
}  // namespace recourse::flow_test
