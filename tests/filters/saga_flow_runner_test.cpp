// Flows as they are looked after: deadlines, waiting for what runs, settling, undoing, parking.
#include <gtest/gtest.h>

#include "filters/saga/flow_worker.h"
#include "tests/filters/saga_shop.h"

namespace recourse::saga_flow_runner_test {
namespace {

using Lines = std::vector<std::string>;

class FlowRunnerTest : public testing::Test {
 protected:
  void Begin() {
    world.StartSettler();
    world.StartFlows();
    world.loop.RunReady();
  }
  Policy& policy() { return const_cast<Policy&>(*world.policy); }
  void Pass(int seconds) { world.loop.RunFor(Millis(1'000 * seconds)); }
  Checkout world;
};

TEST_F(FlowRunnerTest, AFailureHalfwayIsUndoneInReverse) {
  Begin();
  (void)world.Call(Write("orders"));
  (void)world.Call(Write("charges"));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  EXPECT_EQ(world.Call(Write("shipments")).status, 422);
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(Sent(world), (Lines{"POST /orders", "POST /v1/charges", "POST /shipments",
                                "POST /v1/refunds", "DELETE /orders/id-1"}));
  ASSERT_EQ(world.news.size(), 1U);
  EXPECT_EQ(world.news[0].undone, 2U);
}

TEST_F(FlowRunnerTest, AFlowThatEndsAsItShouldStays) {
  Begin();
  (void)world.Call(Write("orders"));
  (void)world.Call(Write("shipments"));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted);
  Pass(600);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_TRUE(world.news.empty());
}

TEST_F(FlowRunnerTest, AnAgentThatFallsSilentIsUndoneAtTheDeadline) {
  Begin();
  (void)world.Call(Write("orders"));
  Pass(29);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kOpen);
  Pass(3);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(Sent(world), (Lines{"POST /orders", "DELETE /orders/id-1"}));
}

TEST_F(FlowRunnerTest, TheDeadlineOfAFlowMayKeepOrAsk) {
  for (const OnDeadline rule : {OnDeadline::kKeep, OnDeadline::kAsk}) {
    Checkout shop;
    const_cast<Policy&>(*shop.policy).flows[0].on_deadline = rule;
    shop.StartFlows();
    (void)shop.Call(Write("orders"));
    shop.loop.RunFor(Millis(60'000));
    EXPECT_EQ(shop.PhaseOf(),
              rule == OnDeadline::kKeep ? FlowPhase::kCommitted : FlowPhase::kNeedsHuman);
    EXPECT_EQ(shop.upstream.writes.size(), 1U);
    EXPECT_EQ(shop.news.size(), rule == OnDeadline::kKeep ? 0U : 1U);
  }
}

TEST_F(FlowRunnerTest, WithoutALastToolADeadlineCommitsWhatSucceeded) {
  policy().flows[0].ends_with.reset();
  Begin();
  (void)world.Call(Write("orders"));
  (void)world.Call(Write("charges"));
  Pass(40);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted);
}

// Its agent reads a success of the whole: none of it may be undone afterwards.
TEST_F(FlowRunnerTest, ALastStepOnItsWayAtTheDeadlineDecides) {
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /shipments", After(Millis(20'000), Created("slow")));
  Pass(28);
  const auto slow = world.Start(Write("shipments"));
  Pass(15);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kOpen);
  Pass(10);
  EXPECT_EQ(slow->status, 201);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted);
  Pass(60);
  EXPECT_EQ(Sent(world), (Lines{"POST /orders", "POST /shipments"}));
}

TEST_F(FlowRunnerTest, ALastStepThatIsSentWhileItsFlowIsBeingBrokenDecides) {
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /shipments", After(Millis(5'000), Created("slow")));
  std::shared_ptr<const Told> told;
  world.ledger.before_move = [&] { told = world.Start(Write("shipments")); };
  Pass(60);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->status, 201);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted);
  EXPECT_EQ(Sent(world), (Lines{"POST /orders", "POST /shipments"}));
}

TEST_F(FlowRunnerTest, ALastStepThatFailsBehindTheDeadlineHasItsFlowUndone) {
  ToolOf(policy(), "ship").breaks_flow = BreaksFlow::kNever;
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /shipments", After(Millis(20'000), Respond(422, "{}")));
  Pass(28);
  const auto slow = world.Start(Write("shipments"));
  Pass(25);
  EXPECT_EQ(slow->status, 422);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowRunnerTest, ALastStepOfUnknownOutcomeIsFoundOutBehindTheDeadline) {
  for (const bool is_found : {true, false}) {
    Checkout shop;
    auto& draft = const_cast<Policy&>(*shop.policy);
    draft.flows[0].ends_with = &ToolOf(draft, "order") - draft.tools.data();
    bool is_there = false;
    shop.upstream.probe = [&](const HttpRequest&) {
      return is_there ? Respond(200, R"({"id":"late"})") : Respond(503, "");
    };
    shop.StartSettler();
    shop.StartFlows();
    (void)shop.Call(Write("charges"));
    shop.loop.RunFor(Millis(28'000));
    shop.instead.emplace("POST /orders", CutAfterSend());
    (void)shop.Start(Write("orders"));
    shop.loop.RunFor(Millis(20'000));
    EXPECT_EQ(shop.PhaseOf(), FlowPhase::kOpen);
    is_there = is_found;
    shop.loop.RunFor(Millis(180'000));
    EXPECT_EQ(shop.PhaseOf(), is_found ? FlowPhase::kCommitted : FlowPhase::kNeedsHuman);
    EXPECT_EQ(shop.upstream.writes.size(), 2U);
  }
}

TEST_F(FlowRunnerTest, WithoutALastToolADeadlineAwaitsWhatRunsAndNothingNewer) {
  policy().flows[0].ends_with.reset();
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /v1/charges", After(Millis(20'000), Created("slow")));
  Pass(28);
  const auto slow = world.Start(Write("charges"));
  Pass(7);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kOpen);
  world.instead.emplace("POST /orders", After(Millis(25'000), Created("newer")));
  const auto newer = world.Start(Write("orders", "2"));
  Pass(16);
  EXPECT_EQ(slow->status, 201);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kCommitted) << "overlapping calls would keep it open";
  Pass(60);
  EXPECT_EQ(newer->status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 3U) << "every step has succeeded";
}

// Each move finds another step: that of an agent that never pauses.
TEST_F(FlowRunnerTest, CallsThatDecideNothingDoNotPutTheDeadlineOff) {
  Begin();
  (void)world.Call(Write("orders"));
  int next = 2;
  std::function<void()> call = [&] {
    (void)world.Start(Write("orders", std::to_string(next++)));
    world.ledger.before_move = call;
  };
  world.ledger.before_move = call;
  Pass(33);
  world.ledger.before_move = nullptr;
  EXPECT_NE(world.PhaseOf(), FlowPhase::kOpen);
  Pass(60);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowRunnerTest, ACancelOnItsWayAtTheDeadlineUndoesWhatWouldBeKept) {
  for (const bool must_end : {true, false}) {
    Checkout shop;
    auto& draft = const_cast<Policy&>(*shop.policy);
    Flow& flow = draft.flows[0];
    flow.on_deadline = OnDeadline::kKeep;
    flow.canceled_by = &ToolOf(draft, "pay") - draft.tools.data();
    if (!must_end) flow.ends_with.reset();
    shop.StartSettler();
    shop.StartFlows();
    (void)shop.Call(Write("orders"));
    shop.instead.emplace("POST /v1/charges", After(Millis(20'000), Created("cancel")));
    shop.loop.RunFor(Millis(28'000));
    const auto cancel = shop.Start(Write("charges"));
    shop.loop.RunFor(Millis(60'000));
    EXPECT_EQ(cancel->status, 201);
    EXPECT_EQ(shop.PhaseOf(), FlowPhase::kUndone) << must_end;
  }
}

TEST_F(FlowRunnerTest, ADeadlineThatPassedWhileNobodyWasThereIsStillKept) {
  (void)world.Call(Write("orders"));
  world.loop.Skip(Millis(3'600'000));
  FlowWorker next({world.ledger,
                   world.upstream,
                   world.settle_worker,
                   world.loop.executor(),
                   world.loop.timer(),
                   world.loop.clock(),
                   world.random,
                   [this](const std::string&) { return world.policy; },
                   [](const std::string&) { return std::string("s3cret"); },
                   {}});
  world.loop.Start(next.Run());
  Pass(4);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kOpen) << "its agent may come back";
  Pass(4);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  next.Stop();
  Pass(1);
}

TEST_F(FlowRunnerTest, AStepThatRunsIsAwaitedBeforeAnythingIsUndone) {
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /v1/charges", After(Millis(10'000), Created("late")));
  const auto slow = world.Start(Write("charges"));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  Pass(8);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kBreaking);
  EXPECT_EQ(world.upstream.writes.size(), 3U) << "nothing is undone yet";
  Pass(6);
  EXPECT_EQ(slow->status, 201);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  const Lines sent = Sent(world);
  EXPECT_EQ((Lines{sent[3], sent[4]}), (Lines{"POST /v1/refunds", "DELETE /orders/id-1"}));
}

TEST_F(FlowRunnerTest, HangingForwardStep) {
  // The connection of a step is lost, the flow breaks, and only then the backend executes the step:
  // it is found by its probe and undone. Nothing was undone before that.
  Begin();
  (void)world.Call(Write("charges"));
  world.instead.emplace("POST /orders", CutAfterSend());
  bool has_arrived = false;
  world.upstream.probe = [&](const HttpRequest&) {
    return has_arrived ? Respond(200, R"({"id":"late"})") : Respond(404, "");
  };
  (void)world.Start(Write("orders"));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Start(Write("shipments"));
  Pass(3);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kBreaking);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
  has_arrived = true;
  Pass(10);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  const Lines sent = Sent(world);
  ASSERT_EQ(sent.size(), 5U);
  EXPECT_EQ(sent[3], "DELETE /orders/late") << "its effect was proved last";
  EXPECT_EQ(sent[4], "POST /v1/refunds");
  EXPECT_EQ(world.Call(Write("orders")).error, ErrorCode::kCompensated);
}

TEST_F(FlowRunnerTest, EmptyCompensation) {
  // A step that is proved to have had no effect is not undone.
  Begin();
  (void)world.Call(Write("charges"));
  world.instead.emplace("POST /orders", CutAfterSend());
  world.upstream.probe = [](const HttpRequest&) { return Respond(404, ""); };
  (void)world.Start(Write("orders"));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Start(Write("shipments"));
  Pass(30);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.StepPhase(1), Phase::kProvenAbsent);
  EXPECT_EQ(Sent(world).back(), "POST /v1/refunds");
  EXPECT_EQ(world.upstream.writes.size(), 4U);
}

TEST_F(FlowRunnerTest, RepeatedCompensation) {
  // An undo request without an answer is not sent again if its policy does not say so, however long
  // the flow stays as it is.
  Begin();
  (void)world.Call(Write("messages"));
  world.instead.emplace("DELETE /messages", CutAfterSend());
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  Pass(3'600);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
  EXPECT_EQ(world.StepPhase(0), Phase::kSucceeded);
  EXPECT_NE(world.Flow().reason.find("may be repeated"), std::string::npos);
}

TEST_F(FlowRunnerTest, WhatNobodyCanSettleIsParkedWithItsReason) {
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /messages", CutAfterSend());
  (void)world.Call(Write("messages"));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman) << "breaks_flow: on_unknown, and no probe";
  EXPECT_NE(world.Flow().reason.find("tell"), std::string::npos) << world.Flow().reason;
  EXPECT_EQ(world.upstream.writes.size(), 2U) << "nothing is undone around an unknown";
  ASSERT_EQ(world.news.size(), 1U);
}

TEST_F(FlowRunnerTest, AnUndoThatFailsIsTriedAgainUntilItIsDone) {
  Begin();
  (void)world.Call(Write("orders"));
  for (int i = 0; i < 5; ++i) world.instead.emplace("DELETE /orders", Respond(503, ""));
  EXPECT_EQ(world.Call(Write("orders", "2")).status, 201);
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  Pass(120);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.upstream.writes.size(), 3U + 5U + 2U);
  EXPECT_EQ(Sent(world).back(), "DELETE /orders/id-1") << "the other waited for its turn";
}

// What a dead process of the group has left is loaded beside it.
TEST_F(FlowRunnerTest, AnUndoKeepsItsPaceWhileOthersWorkIsTakenOver) {
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("DELETE /orders", After(Millis(50), Respond(503, "")));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  const auto runs_until = [this](std::size_t writes) {
    int steps = 0;
    for (; world.upstream.writes.size() < writes && steps < 1'000; ++steps) {
      world.loop.RunFor(Millis(10));
      world.flows.LoadMore();
    }
    return Millis(10 * steps);
  };
  (void)runs_until(3);
  EXPECT_GE(runs_until(4), Millis(450)) << "it was tried again at once";
  Pass(10);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowRunnerTest, TriesEndAndTheFlowIsParked) {
  ToolOf(policy(), "order").undo->attempts_max = 3;
  Begin();
  (void)world.Call(Write("orders"));
  for (int i = 0; i < 9; ++i) world.instead.emplace("DELETE /orders", Respond(503, ""));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  Pass(600);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(world.upstream.writes.size(), 2U + 3U);
  EXPECT_NE(world.Flow().reason.find("3 times"), std::string::npos) << world.Flow().reason;
}

TEST_F(FlowRunnerTest, AStuckStepStopsTheOthersUnlessThePolicyGoesOn) {
  for (const bool goes_on : {false, true}) {
    Checkout shop;
    const_cast<Policy&>(*shop.policy).flows[0].continue_on_stuck = goes_on;
    shop.StartFlows();
    (void)shop.Call(Write("orders"));
    (void)shop.Call(Write("charges"));
    shop.instead.emplace("POST /v1/refunds", Respond(403, "{}"));
    shop.instead.emplace("POST /shipments", Respond(422, "{}"));
    (void)shop.Call(Write("shipments"));
    shop.loop.RunFor(Millis(20'000));
    EXPECT_EQ(shop.PhaseOf(), FlowPhase::kNeedsHuman);
    EXPECT_EQ(shop.StepPhase(0), goes_on ? Phase::kCompensated : Phase::kSucceeded);
    EXPECT_EQ(shop.StepPhase(1), Phase::kSucceeded);
  }
}

TEST_F(FlowRunnerTest, WhatNeedsNoUndoIsPassedAndSaysSo) {
  Begin();
  (void)world.Call(Write("orders"));
  (void)world.Call(Write("notes"));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  Pass(10);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.StepPhase(0), Phase::kCompensated);
  EXPECT_EQ(world.Flow().steps.at(1).end, StepEnd::kNotNeeded);
  EXPECT_EQ(world.StepPhase(1), Phase::kSucceeded);
}

TEST_F(FlowRunnerTest, ManyFlowsThatBreakAtOnceAreUndoneAtTheRateOfTheirBackend) {
  policy().flow_rules.undos_per_second = 2;
  Begin();
  constexpr int kFlows = 20;
  for (int i = 0; i < kFlows; ++i) {
    CallSpec order = Write("orders", std::to_string(i));
    order.trace = std::string(30, 'a') + (i < 10 ? "0" : "1") + std::to_string(i % 10);
    (void)world.Call(order);
  }
  const std::size_t before = world.upstream.writes.size();
  Pass(90);
  ASSERT_EQ(world.upstream.writes.size(), before + kFlows);
  for (std::size_t i = before + 1; i < world.upstream.writes.size(); ++i) {
    EXPECT_GE(world.upstream.writes[i].at - world.upstream.writes[i - 1].at, Millis(500));
  }
}

TEST_F(FlowRunnerTest, AFencedFlowTakesNoWriteAndARepeatOfWhatWasUndoneIsToldSo) {
  Begin();
  (void)world.Call(Write("orders"));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  EXPECT_EQ(world.Call(Write("orders", "2")).error, ErrorCode::kFlowClosed);
  Pass(10);
  EXPECT_EQ(world.Call(Write("orders", "2")).error, ErrorCode::kFlowClosed);
  EXPECT_EQ(world.Call(Write("orders")).error, ErrorCode::kCompensated);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

TEST_F(FlowRunnerTest, AnAgentEndsItsFlowOnlyWherePolicyAndFlowAllowIt) {
  Begin();
  (void)world.Call(Write("orders"));
  EXPECT_EQ(world.Order("cancel").error, ErrorCode::kDenied);
  policy().flow_rules.agent_may_cancel = true;
  EXPECT_EQ(world.Order("close").error, ErrorCode::kDenied);
  EXPECT_EQ(world.Order("cancel another").error, ErrorCode::kFlowClosed);
  EXPECT_EQ(world.Order("cancel").status, 202);
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.Order("cancel").error, ErrorCode::kFlowClosed);
  policy().flow_rules.agent_may_close = true;
  CallSpec order = Write("orders", "2");
  order.trace = kTraceB;
  (void)world.Call(order);
  EXPECT_EQ(world.Order("close", kTraceB).status, 200);
  Pass(60);
  EXPECT_EQ(world.PhaseOf(kTraceB), FlowPhase::kCommitted);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

TEST_F(FlowRunnerTest, AStepThatBecameUnknownWithTheLastProcessBreaksItsFlowAtTheStart) {
  world.instead.emplace("POST /messages", Hang());
  (void)world.Start(Write("messages"));
  const Event sent = world.Events().back();
  Transition crash;
  crash.operation = sent.operation;
  crash.attempt = sent.attempt;
  crash.to = Phase::kUncertain;
  crash.cause = Cause::kCrash;
  ASSERT_TRUE(world.loop.Run(world.ledger.Record(crash, world.loop.executor())));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kOpen);
  Begin();
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman) << "breaks_flow: on_unknown, and no probe";
}

TEST_F(FlowRunnerTest, AFlowThatCannotBeReadForAWhileIsNotForgotten) {
  Begin();
  (void)world.Call(Write("orders"));
  world.ledger.flows_fail = true;
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  (void)world.Call(Write("shipments"));
  Pass(10);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kBreaking);
  world.ledger.flows_fail = false;
  Pass(10);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowRunnerTest, AnOperatorWhoUndoesAFlowInTheMomentOfItsEndIsHeard) {
  policy().flows[0].ends_with.reset();
  Begin();
  (void)world.Call(Write("orders"));
  Pass(29);
  world.ledger.after_move = [this]() -> Task<void> {
    co_await world.loop.timer().SleepUntil(world.loop.now() + Millis(2'000));
  };
  Pass(2);
  ASSERT_EQ(world.PhaseOf(), FlowPhase::kCommitted) << "and the runner does not know it yet";
  world.instead.emplace("DELETE /orders", After(Millis(5'000), Respond(200, "{}")));
  ASSERT_TRUE(world.Act(FlowAction::Kind::kUndo));
  Pass(20);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(FlowRunnerTest, WhoStopsInTheMiddleOfAnUndoLosesNothing) {
  (void)world.Call(Write("orders"));
  world.instead.emplace("DELETE /orders", After(Millis(3'000), Respond(200, "{}")));
  world.instead.emplace("POST /shipments", Respond(422, "{}"));
  Begin();
  (void)world.Call(Write("shipments"));
  Pass(1);
  ASSERT_EQ(world.upstream.writes.size(), 3U) << "the undo is on its way";
  world.flows.Stop();
  Pass(10);
  EXPECT_EQ(world.StepPhase(0), Phase::kCompensated) << "its answer was awaited";
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndoing) << "nothing new was begun";
  EXPECT_FALSE(world.Act(FlowAction::Kind::kRetry)) << "and nothing is taken on";
}

}  // namespace
}  // namespace recourse::saga_flow_runner_test
