// What the policy and the outcomes decide about flows, row by row.
#include <gtest/gtest.h>

#include "filters/flow_effect.h"
#include "filters/saga/flow_rules.h"
#include "filters/saga/undo_plan.h"
#include "proxy/base/message_limits.h"
#include "tests/filters/saga_shop.h"

namespace recourse::saga_rules_test {
namespace {

using Kind = UndoDecision::Kind;

FlowStep StepOf(std::uint64_t operation, Phase phase, std::uint64_t success = 0) {
  return {.operation = operation, .phase = phase, .success = success};
}

FlowState FlowOf(std::vector<FlowStep> steps) {
  FlowState state;
  state.number = 1;
  state.name = "checkout";
  state.phase = FlowPhase::kOpen;
  state.steps = std::move(steps);
  return state;
}

TEST(FlowOrderTest, TheWordOfAnAgentIsReadAsItStands) {
  struct Row {
    std::string field;
    std::optional<FlowOrder::Kind> kind;
    std::string flow;
  };
  for (const Row& row :
       {Row{"close", FlowOrder::Kind::kClose, ""}, Row{"CANCEL", FlowOrder::Kind::kCancel, ""},
        Row{"cancel trip-7", FlowOrder::Kind::kCancel, "trip-7"},
        Row{"cancelled", std::nullopt, ""}, Row{"", std::nullopt, ""},
        Row{" close", std::nullopt, ""}, Row{"undo", std::nullopt, ""}}) {
    const auto order = ReadFlowOrder({{"recourse-flow", row.field}});
    ASSERT_EQ(order.has_value(), row.kind.has_value()) << row.field;
    if (!order) continue;
    EXPECT_EQ(order->kind, *row.kind) << row.field;
    EXPECT_EQ(order->flow, row.flow) << row.field;
  }
  EXPECT_FALSE(ReadFlowOrder({{"Other", "close"}}));
}

TEST(FlowTimeTest, ADeadlineCountsFromTheFirstStepAndNeverBelowZero) {
  const auto policy = DraftOf(kCheckoutPolicy);
  FlowState state = FlowOf({});
  EXPECT_EQ(FlowTimeLeft(*policy, state, Millis(0)), Millis(30'000));
  EXPECT_EQ(FlowTimeLeft(*policy, state, Millis(29'999)), Millis(1));
  EXPECT_EQ(FlowTimeLeft(*policy, state, Millis(31'000)), Millis(0));
  state.name = "other";
  EXPECT_FALSE(FlowTimeLeft(*policy, state, Millis(0)));
  state.name = "checkout";
  policy->flows[0].deadline.reset();
  EXPECT_FALSE(FlowTimeLeft(*policy, state, Millis(0)));
}

TEST(FlowDeadlineTest, WhatBecomesOfAFlowAtItsDeadline) {
  struct Row {
    std::vector<Phase> steps;
    bool must_end, has_ended;
    OnDeadline rule;
    FlowPhase to;
  };
  using P = Phase;
  for (const Row& row : {
           // Everything succeeded, and what had to end it did, or nothing had to.
           Row{{P::kSucceeded, P::kAnswerLost},
               false,
               true,
               OnDeadline::kUndo,
               FlowPhase::kCommitted},
           Row{{P::kSucceeded}, true, true, OnDeadline::kUndo, FlowPhase::kCommitted},
           // Its last step never came.
           Row{{P::kSucceeded}, true, false, OnDeadline::kUndo, FlowPhase::kBreaking},
           Row{{P::kSucceeded}, true, false, OnDeadline::kKeep, FlowPhase::kCommitted},
           Row{{P::kSucceeded}, true, false, OnDeadline::kAsk, FlowPhase::kNeedsHuman},
           // Unfinished business.
           Row{{P::kSucceeded, P::kRejected}, false, true, OnDeadline::kUndo, FlowPhase::kBreaking},
           Row{{P::kSucceeded, P::kUncertain},
               false,
               true,
               OnDeadline::kAsk,
               FlowPhase::kNeedsHuman},
           Row{{P::kSucceeded, P::kDispatching},
               true,
               false,
               OnDeadline::kUndo,
               FlowPhase::kBreaking},
           // What still runs began behind the deadline.
           Row{{P::kSucceeded, P::kDispatching},
               false,
               true,
               OnDeadline::kUndo,
               FlowPhase::kCommitted},
           Row{{P::kNotSent}, false, true, OnDeadline::kKeep, FlowPhase::kCommitted},
       }) {
    const auto policy = DraftOf(kCheckoutPolicy);
    policy->flows[0].on_deadline = row.rule;
    if (!row.must_end) policy->flows[0].ends_with.reset();
    std::vector<FlowStep> steps;
    for (const Phase phase : row.steps) steps.push_back(StepOf(steps.size() + 1, phase));
    const FlowMove move = MoveAtDeadline(*policy, FlowOf(steps), row.has_ended);
    EXPECT_EQ(move.to, row.to) << NameOf(row.steps.back()) << " " << static_cast<int>(row.rule);
    EXPECT_EQ(move.from, FlowPhase::kOpen);
    EXPECT_EQ(move.cause, FlowCause::kDeadline);
    EXPECT_FALSE(move.reason.empty());
  }
}

TEST(FlowDeadlineTest, WhichStepItWaitsFor) {
  constexpr Millis kForEver = Millis::max(), kNot{0}, kSettle = limits::kFlowSettleFor;
  struct Row {
    std::string tool;
    Phase phase;
    std::int64_t sent_after_ms;
    Millis if_last, if_any;
  };
  using P = Phase;
  for (const Row& row : {
           Row{"order", P::kDispatching, 29'999, kForEver, kForEver},
           Row{"order", P::kDispatching, 30'001, kForEver, kNot},
           Row{"order", P::kUncertain, 0, kSettle + Millis(5'000), kSettle + Millis(5'000)},
           Row{"pay", P::kDispatching, 0, kNot, kForEver},
           Row{"pay", P::kUncertain, 0, kNot, kSettle},
           Row{"ship", P::kUncertain, 0, kNot, kNot},  // nobody will find out
           Row{"order", P::kRejected, 0, kNot, kNot},
           Row{"order", P::kClaimed, 0, kNot, kNot},  // a question is taken back
       }) {
    const auto policy = DraftOf(kCheckoutPolicy);
    policy->flows[0].ends_with = &ToolOf(*policy, "order") - policy->tools.data();
    FlowState state = FlowOf({});
    state.began_ms = 1'000;
    Event step;
    step.tool = row.tool;
    step.phase = row.phase;
    step.wall_ms = state.began_ms + row.sent_after_ms;
    if (row.tool == "order") step.settle.emplace();
    if (row.tool == "pay") step.dedupe_domain = 1;
    EXPECT_EQ(AwaitedAtDeadline(*policy, state, step), row.if_last) << row.tool;
    policy->flows[0].ends_with.reset();
    EXPECT_EQ(AwaitedAtDeadline(*policy, state, step), row.if_any) << row.tool;
    step.task.emplace();
    EXPECT_EQ(AwaitedAtDeadline(*policy, state, step) == limits::kTaskAwaitedFor,
              row.phase == P::kUncertain);
  }
}

TEST(FlowDeadlineTest, AFlowWhosePolicyIsLostAsksAHuman) {
  Policy policy;
  const FlowMove move = MoveAtDeadline(policy, FlowOf({StepOf(1, Phase::kUncertain)}), false);
  EXPECT_EQ(move.to, FlowPhase::kNeedsHuman);
}

TEST(FlowEffectTest, WhatAnOutcomeDoesToItsFlow) {
  const auto policy = DraftOf(kCheckoutPolicy);
  ToolOf(*policy, "note").breaks_flow = BreaksFlow::kNever;
  policy->flows[0].canceled_by = std::size_t{0};  // order
  struct Row {
    std::string tool;
    Phase phase;
    std::optional<FlowPhase> to;
    FlowCause cause = FlowCause::kNone;
  };
  using P = Phase;
  for (const Row& row : {
           Row{"ship", P::kSucceeded, FlowPhase::kCommitted, FlowCause::kEndsWith},
           Row{"order", P::kSucceeded, FlowPhase::kBreaking, FlowCause::kCanceled},
           Row{"pay", P::kSucceeded, std::nullopt},
           // A failed call alone breaks nothing, unless its tool says so.
           Row{"pay", P::kRejected, std::nullopt},
           Row{"ship", P::kRejected, FlowPhase::kBreaking, FlowCause::kStepFailed},
           Row{"ship", P::kProvenAbsent, FlowPhase::kBreaking, FlowCause::kStepFailed},
           Row{"ship", P::kUncertain, std::nullopt},
           Row{"tell", P::kUncertain, FlowPhase::kBreaking, FlowCause::kStepUnknown},
           Row{"tell", P::kRejected, FlowPhase::kBreaking, FlowCause::kStepFailed},
           Row{"tell", P::kSucceeded, std::nullopt},
           // It was not sent, and may be made again at once.
           Row{"ship", P::kNotSent, std::nullopt},
           Row{"tell", P::kNotSent, std::nullopt},
           Row{"ship", P::kDispatching, std::nullopt},
           Row{"ship", P::kAnswerLost, FlowPhase::kCommitted, FlowCause::kEndsWith},
           Row{"order", P::kAnswerLost, FlowPhase::kBreaking, FlowCause::kCanceled},
       }) {
    const auto effect = FlowEffectOf(*policy, ToolOf(*policy, row.tool), row.phase);
    const std::string where = row.tool + " " + std::string(NameOf(row.phase));
    ASSERT_EQ(effect.has_value(), row.to.has_value()) << where;
    if (!effect) continue;
    EXPECT_EQ(effect->to, *row.to) << where;
    EXPECT_EQ(effect->cause, row.cause) << where;
    EXPECT_NE(effect->reason.find(row.tool), std::string::npos) << where;
  }
}

TEST(UndoPlanTest, TheStepWhoseEffectWasProvedLastIsUndoneFirst) {
  FlowState state = FlowOf({StepOf(1, Phase::kSucceeded, 20), StepOf(2, Phase::kSucceeded, 10),
                            StepOf(3, Phase::kAnswerLost, 15)});
  std::vector<std::uint64_t> order;
  while (const FlowStep* const next = NextToUndo(state, {})) {
    order.push_back(next->operation);
    for (FlowStep& step : state.steps) {
      if (step.operation == order.back()) step.phase = Phase::kCompensated;
    }
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 3, 2}));
}

TEST(UndoPlanTest, OnlyAnEffectThatStandsIsUndone) {
  FlowStep stays = StepOf(6, Phase::kSucceeded, 60);
  stays.end = StepEnd::kNotNeeded;
  const FlowState state = FlowOf({StepOf(1, Phase::kRejected), StepOf(2, Phase::kNotSent),
                                  StepOf(3, Phase::kProvenAbsent), StepOf(4, Phase::kCompensated),
                                  StepOf(5, Phase::kSucceeded, 50), stays});
  ASSERT_NE(NextToUndo(state, {}), nullptr);
  EXPECT_EQ(NextToUndo(state, {})->operation, 5U);
  EXPECT_EQ(NextToUndo(state, {5}), nullptr) << "a step that is passed over";
  EXPECT_EQ(NextToUndo(FlowOf({}), {}), nullptr);
}

TEST(UndoPlanTest, WhetherAStepIsUndoneIsDecidedByWhatWasStoredWithIt) {
  Event event;
  event.tool = "order";
  Tool tool;
  tool.name = "order";
  EXPECT_EQ(DecideUndo(event, &tool, nullptr).kind, Kind::kPark) << "no undo, no reason";
  EXPECT_EQ(DecideUndo(event, nullptr, nullptr).kind, Kind::kPark) << "its policy is lost";
  tool.reason = "harmless";
  EXPECT_EQ(DecideUndo(event, &tool, nullptr).kind, Kind::kSkip);
  EXPECT_NE(DecideUndo(event, &tool, nullptr).reason.find("harmless"), std::string::npos);
  tool.reason.clear();
  tool.undo.emplace();
  EXPECT_EQ(DecideUndo(event, &tool, nullptr).kind, Kind::kPark) << "it could not be rendered";
  event.undo = RenderedRequest{"DELETE", "/orders/1", {}, ""};
  EXPECT_EQ(DecideUndo(event, &tool, nullptr).kind, Kind::kSend);
  EXPECT_EQ(DecideUndo(event, nullptr, nullptr).kind, Kind::kSend)
      << "what was stored is enough, whatever became of the policy";
  event.is_locked = true;
  event.detail = "key 3 is missing";
  const UndoDecision locked = DecideUndo(event, &tool, nullptr);
  EXPECT_EQ(locked.kind, Kind::kPark);
  EXPECT_NE(locked.reason.find("key 3"), std::string::npos);
}

TEST(UndoPlanTest, AtThePivotTheUndoEndsUnlessThePolicyGoesPast) {
  Event event;
  event.tool = "ticket";
  event.undo = RenderedRequest{"DELETE", "/tickets/1", {}, ""};
  Tool tool;
  tool.name = "ticket";
  tool.pivot = true;
  Flow flow;
  EXPECT_EQ(DecideUndo(event, &tool, nullptr).kind, Kind::kPark);
  EXPECT_EQ(DecideUndo(event, &tool, &flow).kind, Kind::kPark);
  EXPECT_NE(DecideUndo(event, &tool, &flow).reason.find("pivot"), std::string::npos);
  flow.undo_before_pivot = true;
  EXPECT_EQ(DecideUndo(event, &tool, &flow).kind, Kind::kSend);
}

TEST(UndoPlanTest, WhatAnAnswerToAnUndoProves) {
  StatusSet done;
  done.Add(200, 299);
  done.Add(404, 404);
  struct Row {
    int status;
    Phase first, repeated;
  };
  using P = Phase;
  for (const Row& row :
       {Row{200, P::kSucceeded, P::kSucceeded}, Row{204, P::kSucceeded, P::kSucceeded},
        Row{404, P::kSucceeded, P::kSucceeded},
        // A refusal, but of a repeat it says nothing about the first.
        Row{400, P::kRejected, P::kUncertain}, Row{403, P::kRejected, P::kUncertain},
        Row{410, P::kRejected, P::kUncertain}, Row{422, P::kRejected, P::kUncertain},
        // What is to be undone has moved on.
        Row{409, P::kRejected, P::kUncertain},
        // Not taken on yet.
        Row{429, P::kNotSent, P::kUncertain}, Row{425, P::kNotSent, P::kUncertain},
        // Somebody else may have acted, or may act.
        Row{408, P::kUncertain, P::kUncertain}, Row{423, P::kUncertain, P::kUncertain},
        Row{302, P::kUncertain, P::kUncertain}, Row{500, P::kUncertain, P::kUncertain},
        Row{503, P::kUncertain, P::kUncertain}}) {
    Answer answer;
    answer.response.status = row.status;
    EXPECT_EQ(JudgeUndo(done, answer, false).phase, row.first) << row.status;
    EXPECT_EQ(JudgeUndo(done, answer, true).phase, row.repeated) << row.status;
    EXPECT_EQ(JudgeUndo(done, answer, false).http_status, row.status);
  }
}

TEST(UndoPlanTest, AConflictIsARefusalUnlessItAsksToComeAgain) {
  Answer answer;
  answer.response.status = 409;
  EXPECT_TRUE(JudgeUndo({}, answer, false).is_refused);
  EXPECT_TRUE(JudgeUndo({}, answer, true).is_refused);
  answer.response.headers = {{"Retry-After", "3"}};
  EXPECT_FALSE(JudgeUndo({}, answer, false).is_refused);
  EXPECT_EQ(JudgeUndo({}, answer, false).phase, Phase::kUncertain);

  answer.response.headers = {{"Should-Retry", "true"}};
  Tool tool;
  Backend backend;
  const auto judge = [&](bool is_resend) {
    return OrAgain(JudgeUndo({}, answer, is_resend), &tool, backend, answer, is_resend);
  };
  EXPECT_EQ(judge(false).phase, Phase::kRejected);
  backend.repeat_if = {*ParseCondition("answer.header.Should-Retry == true")};
  EXPECT_EQ(judge(false).phase, Phase::kNotSent);
  EXPECT_EQ(judge(true).phase, Phase::kUncertain);
  EXPECT_FALSE(judge(true).is_refused);
}

TEST(UndoPlanTest, AnUndoWithoutAnAnswerIsNotSentOnlyIfNothingLeft) {
  const auto judge = [](ErrorCode code, Delivery delivery, bool is_resend) {
    return JudgeUndo({}, std::unexpected(Error(code, "why", delivery)), is_resend);
  };
  const UndoVerdict refused = judge(ErrorCode::kNotSent, Delivery::kNotSent, false);
  EXPECT_EQ(refused.phase, Phase::kNotSent);
  EXPECT_EQ(refused.cause, Cause::kConnectFailed);
  EXPECT_EQ(judge(ErrorCode::kNotSent, Delivery::kNotSent, true).phase, Phase::kUncertain)
      << "the request before it may have been executed";
  struct Row {
    ErrorCode code;
    Cause cause;
  };
  for (const Row& row : {Row{ErrorCode::kBackendTimeout, Cause::kTimeout},
                         Row{ErrorCode::kBackendReset, Cause::kConnectionLost},
                         Row{ErrorCode::kBackendProtocol, Cause::kProtocolError}}) {
    const UndoVerdict verdict = judge(row.code, Delivery::kUncertain, false);
    EXPECT_EQ(verdict.phase, Phase::kUncertain);
    EXPECT_EQ(verdict.cause, row.cause);
  }
}

TEST(UndoPlanTest, PausesDoubleHaveACapAndRespectTheBackend) {
  for (const std::uint32_t jitter : {0U, 12'345U, 0xffffffffU}) {
    Millis least = limits::kUndoBackoffFirst;
    for (int attempt = 1; attempt <= 30; ++attempt) {
      const Millis pause = UndoPause(attempt, {}, jitter);
      EXPECT_GE(pause, least / 2) << attempt;
      EXPECT_LE(pause, least) << attempt;
      least = std::min<Millis>(least * 2, limits::kUndoBackoffMax);
    }
    EXPECT_EQ(UndoPause(1, 7, jitter), Millis(7'000)) << "Retry-After";
    EXPECT_EQ(UndoPause(1, 1'000'000, jitter), limits::kUndoBackoffMax);
    EXPECT_LE(UndoPause(0, {}, jitter), limits::kUndoBackoffFirst);
  }
  EXPECT_NE(UndoPause(5, {}, 1), UndoPause(5, {}, 4'000)) << "tries of many flows spread";
}

TEST(GraphqlUndoTest, ErrorsProveARefusalOnlyAsThePolicySays) {
  Backend backend;
  backend.protocol = Protocol::kGraphql;
  Tool tool;
  const auto judge = [&](std::string body, bool is_resend = false) {
    Answer answer;
    answer.response = {200, "OK", {{"Content-Type", "application/json"}}, std::move(body)};
    UndoRule rule;
    rule.done.Add(200, 299);
    rule.done_when.push_back(*ParseCondition("answer.body#/data/issueDelete != null"));
    return OrRefused(JudgeUndoBy(&rule, answer, is_resend), &tool, backend, answer, is_resend);
  };
  const std::string refused = R"({"data":null,"errors":[{"message":"not found"}]})";
  const std::string nulled = R"({"data":{"issueDelete":null},"errors":[{"message":"no"}]})";
  for (const std::string& body : {refused, nulled}) {
    EXPECT_EQ(judge(body).phase, Phase::kUncertain);
    EXPECT_FALSE(judge(body).is_refused);
  }
  tool.on_error = OnError::kNotExecuted;
  for (const std::string& body : {refused, nulled}) {
    EXPECT_EQ(judge(body).phase, Phase::kRejected);
    EXPECT_EQ(judge(body, true).phase, Phase::kUncertain);
    EXPECT_TRUE(judge(body, true).is_refused);
  }
  EXPECT_EQ(judge(refused).detail, "the server refused the mutation: not found");
  EXPECT_EQ(judge(R"({"data":{"issueDelete":{"success":true}}})").phase, Phase::kSucceeded);
  EXPECT_EQ(judge("{}").phase, Phase::kUncertain);
}

}  // namespace
}  // namespace recourse::saga_rules_test
