// What every Ledger must do with calls that wait for a human.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "proxy/base/limits.h"
#include "tests/ledger/approval_ledger.h"

namespace recourse::approval_contract_test {
namespace {

using testing::HasSubstr;
using Kind = Begun::Kind;
using OrderKind = ApprovalOrder::Kind;
using Ruling = ApprovalRuling::Kind;

using ApprovalContractTest = ApprovalLedgerTest;

TEST_P(ApprovalContractTest, ACallThatNeedsAHumanWaitsWithItsExactRequest) {
  const Event asked = Ask();
  EXPECT_EQ(asked.phase, Phase::kClaimed);
  EXPECT_EQ(asked.attempt, 0);
  const auto claims = Claims();
  ASSERT_EQ(claims.size(), 1U);
  const Event& event = claims.front().event;
  ASSERT_TRUE(event.request && event.approval);
  EXPECT_EQ(event.request->body, R"({"amount":5000})");
  EXPECT_EQ(event.approval->digest, RequestDigest("orders", *event.request));
  EXPECT_EQ(event.approval->why, "amount > 1000");
  EXPECT_EQ(claims.front().left, Millis(60'000));
  EXPECT_EQ(ledger_->Stats().approvals_pending, 1U);
}

TEST_P(ApprovalContractTest, ARepeatAttachesAlsoUnderAnotherTraceAndAfterARestart) {
  const Event asked = Ask();
  const Begun repeat = Begin(Asking("k"));
  EXPECT_EQ(repeat.kind, Kind::kHeld);
  EXPECT_EQ(repeat.commit, nullptr);
  EXPECT_EQ(repeat.event.operation, asked.operation);
  NewOperation first = Asking("a", "trace-a");
  NewOperation second = Asking("b", "trace-b");
  for (NewOperation* call : {&first, &second}) {
    call->event.intent = DigestOf("one intent");
    call->across_traces = AcrossTraces::kIfUnanswered;
  }
  const Begun begun = Begin(std::move(first));
  EXPECT_EQ(Begin(std::move(second)).event.operation, begun.event.operation);
  EXPECT_EQ(Claims().size(), 2U);
  if (!Restart()) return;
  EXPECT_EQ(Claims().size(), 2U);
  EXPECT_EQ(Begin(Asking("k")).event.operation, asked.operation);
}

TEST_P(ApprovalContractTest, WhatIsSaidOfAnotherCallThanTheOneOfThatNumberIsNotTaken) {
  const Event asked = Ask();
  for (const OrderKind kind : {OrderKind::kApprove, OrderKind::kReject, OrderKind::kExpire,
                               OrderKind::kPolicyChanged, OrderKind::kCannotRun}) {
    ApprovalOrder order{.kind = kind,
                        .operation = asked.operation,
                        .key = DigestOf("another call's"),
                        .by = {"ann", {"team"}},
                        .digest = asked.approval->digest,
                        .policy = DigestOf("another policy"),
                        .reason = "seen"};
    const auto refused = Await(ledger_->Decide(order, executor_), executor_);
    ASSERT_FALSE(refused) << static_cast<int>(kind);
    EXPECT_EQ(refused.error().code(), ErrorCode::kInternal);
    EXPECT_EQ(Latest(asked.operation).id, asked.id) << "something was written";
  }
  const auto taken = Decide({.kind = OrderKind::kApprove,
                             .operation = asked.operation,
                             .key = asked.key,
                             .by = {"ann", {"team"}},
                             .digest = asked.approval->digest,
                             .policy = kPolicy,
                             .reason = "seen"});
  EXPECT_EQ(taken.kind, Ruling::kTaken);
}

TEST_P(ApprovalContractTest, AnApprovalIsGoodForOneDispatch) {
  const Event asked = Ask();
  EXPECT_FALSE(TryUse(asked.operation)) << "nobody has approved it yet";
  const ApprovalOutcome approved = Say(OrderKind::kApprove, asked);
  EXPECT_EQ(approved.kind, Ruling::kTaken);
  EXPECT_EQ(approved.event.phase, Phase::kApproved);
  Restart();
  auto used = TryUse(asked.operation);
  if (GetParam() == Store::kMemory || used) {
    ASSERT_TRUE(used);
    EXPECT_EQ(used->kind, Kind::kFresh);
    EXPECT_EQ(used->event.phase, Phase::kDispatching);
    EXPECT_EQ(used->event.cause, Cause::kApproved);
    EXPECT_EQ(used->event.attempt, 1);
    ASSERT_TRUE(Await(used->commit->Durable(), executor_));
  }
  EXPECT_FALSE(TryUse(asked.operation)) << "it is used up";
  EXPECT_EQ(Begin(Asking("k")).kind, Kind::kRunning);
  EXPECT_TRUE(Claims().empty());
  auto outcome = Await(ledger_->Record(Success(used->event), executor_), executor_);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->request) << "nothing of the agent's request is kept longer than needed";
  ASSERT_TRUE(outcome->approval);
  EXPECT_EQ(LastWord(*outcome->approval), "ann: seen");
  EXPECT_EQ(Begin(Asking("k")).kind, Kind::kReplay);
}

TEST_P(ApprovalContractTest, ARejectionIsTheAnswerToEveryRepeat) {
  const Event asked = Ask();
  Started<Result<std::optional<Event>>> join(
      ledger_->Join(asked.operation, clock_.Now() + std::chrono::hours(1), executor_));
  EXPECT_FALSE(join.is_done());
  EXPECT_EQ(Say(OrderKind::kReject, asked).event.phase, Phase::kDenied);
  const auto joined = join.Get(executor_);
  ASSERT_TRUE(joined && *joined);
  EXPECT_EQ((*joined)->phase, Phase::kDenied);
  EXPECT_THAT((*joined)->detail, HasSubstr("rejected by ann: seen"));
  EXPECT_FALSE((*joined)->request);
  const Begun repeat = Begin(Asking("k"));
  EXPECT_EQ(repeat.kind, Kind::kReplay);
  EXPECT_EQ(repeat.event.phase, Phase::kDenied);
  EXPECT_FALSE(TryUse(asked.operation));
}

TEST_P(ApprovalContractTest, WhoeverIsSecondChangesNothingAndIsInTheLog) {
  const Event asked = Ask();
  Say(OrderKind::kApprove, asked);
  const ApprovalOutcome late = Say(OrderKind::kReject, asked, "bob");
  EXPECT_EQ(late.kind, Ruling::kDecided);
  EXPECT_EQ(late.event.phase, Phase::kApproved);
  const auto used = TryUse(asked.operation);
  ASSERT_TRUE(used && Await(used->commit->Durable(), executor_));
  Say(OrderKind::kReject, asked, "carol");
  ASSERT_TRUE(Await(ledger_->Record(Success(used->event), executor_), executor_));
  Say(OrderKind::kReject, asked, "dora");
  const Event last = Latest(asked.operation);
  EXPECT_EQ(last.phase, Phase::kSucceeded);
  EXPECT_EQ(last.answer.body, "{\"id\":7}") << "the answer is kept as it was";
  ASSERT_EQ(last.approval->decisions.size(), 4U);
  for (int i = 1; i < 4; ++i) {
    EXPECT_TRUE(last.approval->decisions[static_cast<std::size_t>(i)].is_late);
  }
  EXPECT_TRUE(ledger_->Verify().ok);
}

TEST_P(ApprovalContractTest, NeitherAClockSetBackNorARestartGivesItMoreTime) {
  const Event asked = Ask();
  clock_.Advance(Millis(59'999));
  clock_.JumpWall(-std::chrono::hours(2));
  EXPECT_EQ(
      Decide({.kind = OrderKind::kExpire, .operation = asked.operation, .policy = kPolicy}).kind,
      Ruling::kNotDue);
  Restart();
  clock_.Advance(Millis(2));
  const ApprovalOutcome over = Say(OrderKind::kApprove, asked);
  EXPECT_EQ(over.kind, Ruling::kExpired);
  EXPECT_EQ(over.event.phase, Phase::kExpired);
  clock_.JumpWall(-std::chrono::hours(24));
  EXPECT_EQ(Latest(asked.operation).phase, Phase::kExpired);
}

TEST_P(ApprovalContractTest, AnExpiryIsNoNoAndTheCallMayBeAskedAgain) {
  const Event asked = Ask();
  clock_.Advance(Millis(60'001));
  Decide({.kind = OrderKind::kExpire, .operation = asked.operation, .policy = kPolicy});
  Restart();
  const Begun again = Begin(Asking("k"));
  EXPECT_EQ(again.kind, Kind::kHeld);
  EXPECT_EQ(again.event.phase, Phase::kClaimed);
  EXPECT_NE(again.event.operation, asked.operation);
  EXPECT_EQ(Begin(Asking("k")).event.operation, again.event.operation) << "it is asked once";
  EXPECT_EQ(Latest(asked.operation).phase, Phase::kExpired) << "what became of it stays told";
}

TEST_P(ApprovalContractTest, AnApprovalThatIsOverIsNotUsed) {
  const Event asked = Ask();
  Say(OrderKind::kApprove, asked);
  clock_.Advance(Millis(60'001));
  const auto used = TryUse(asked.operation);
  ASSERT_TRUE(used);
  EXPECT_EQ(used->kind, Kind::kHeld);
  EXPECT_EQ(used->event.phase, Phase::kExpired);
}

// Whoever said yes in time was told that it is taken.
TEST_P(ApprovalContractTest, WhatWasApprovedInTheLastMomentIsSentBehindItsEnd) {
  for (const int late_ms : {0, 1, 9'000, 29'998}) {
    const std::string key = "k" + std::to_string(late_ms);
    const Event asked = Ask(key);
    clock_.Advance(Millis(59'999));
    ASSERT_EQ(Say(OrderKind::kApprove, asked).kind, Ruling::kTaken);
    clock_.Advance(Millis(1 + late_ms));
    EXPECT_EQ(
        Decide({.kind = OrderKind::kExpire, .operation = asked.operation, .policy = kPolicy}).kind,
        Ruling::kNotDue);
    Restart();
    const auto used = TryUse(asked.operation);
    ASSERT_TRUE(used) << late_ms;
    EXPECT_EQ(used->kind, Kind::kFresh) << late_ms;
    ASSERT_TRUE(used->commit && Await(used->commit->Durable(), executor_));
  }
}

TEST_P(ApprovalContractTest, WhatWasApprovedInTheLastMomentIsNotSentMuchLater) {
  const Event asked = Ask();
  clock_.Advance(Millis(59'999));
  Say(OrderKind::kApprove, asked);
  clock_.Advance(Millis(30'000));
  const auto used = TryUse(asked.operation);
  ASSERT_TRUE(used);
  EXPECT_EQ(used->kind, Kind::kHeld);
  EXPECT_EQ(used->event.phase, Phase::kExpired);
  const Event first = Ask("another");
  clock_.Advance(Millis(60'000));
  EXPECT_EQ(Say(OrderKind::kApprove, first).kind, Ruling::kExpired) << "nobody had decided it";
}

TEST_P(ApprovalContractTest, AnotherPolicyVoidsItAndARepeatAsksAnew) {
  const Event asked = Ask();
  Say(OrderKind::kApprove, asked);
  const auto used = TryUse(asked.operation, DigestOf("a new policy"));
  ASSERT_TRUE(used);
  EXPECT_EQ(used->event.phase, Phase::kExpired);
  EXPECT_EQ(used->event.cause, Cause::kPolicyChanged);
  EXPECT_EQ(Say(OrderKind::kApprove, asked, "bob").kind, Ruling::kExpired);
  NewOperation again = Asking("k");
  again.approval->policy = DigestOf("a new policy");
  const Begun anew = Begin(std::move(again));
  EXPECT_EQ(anew.kind, Kind::kHeld);
  EXPECT_EQ(anew.event.phase, Phase::kClaimed);
  EXPECT_EQ(anew.event.operation, asked.operation);
  EXPECT_TRUE(anew.event.approval->decisions.empty()) << "the old word counts no more";
}

TEST_P(ApprovalContractTest, AnEditIsWhatIsSentAndTheOriginalIsKeptBesideIt) {
  const Event asked = Ask();
  const ApprovalOutcome edited =
      Say(OrderKind::kApprove, asked, "ann", std::string(R"({"amount":50})"));
  EXPECT_EQ(edited.kind, Ruling::kTaken);
  const Event event = Latest(asked.operation);
  EXPECT_EQ(event.request->body, R"({"amount":50})");
  EXPECT_EQ(event.approval->original_body, R"({"amount":5000})");
  EXPECT_NE(event.approval->digest, asked.approval->digest);
  EXPECT_EQ(Begin(Asking("k")).event.operation, asked.operation) << "the key is the agent's own";
}

TEST_P(ApprovalContractTest, AnEditIsWeighedAnewByAllApprovers) {
  NewOperation call = Asking("k");
  call.approval->needed = 2;
  const Event asked = Begin(std::move(call)).event;
  EXPECT_EQ(Say(OrderKind::kApprove, asked, "ann").event.phase, Phase::kClaimed);
  EXPECT_EQ(Say(OrderKind::kApprove, asked, "bob", std::string("{}")).event.phase, Phase::kClaimed);
  EXPECT_EQ(Say(OrderKind::kApprove, asked, "bob").kind, Ruling::kDecided) << "he has approved it";
  EXPECT_EQ(Say(OrderKind::kApprove, asked, "ann").event.phase, Phase::kApproved);
}

TEST_P(ApprovalContractTest, WhatWaitsInAFlowThatBreaksIsNeverSent) {
  NewOperation step = Call("step");
  step.event.is_step = true;
  const Event first = Begin(std::move(step)).event;
  ASSERT_TRUE(Await(ledger_->Record(Success(first), executor_), executor_));
  const Event asked = Ask("k");
  const Event approved = Ask("k2");
  const Event elsewhere = Ask("k3", "trace-2");
  Say(OrderKind::kApprove, approved);
  Started<Result<std::optional<Event>>> join(
      ledger_->Join(asked.operation, clock_.Now() + std::chrono::hours(1), executor_));
  auto moved = Await(
      ledger_->MoveFlow(
          {.caller = "agent-1", .flow = "trace-1", .cause = FlowCause::kHuman, .reason = "no more"},
          executor_),
      executor_);
  ASSERT_TRUE(moved);
  EXPECT_EQ((*join.Get(executor_))->cause, Cause::kFlowClosed);
  EXPECT_EQ(Latest(approved.operation).phase, Phase::kExpired);
  EXPECT_FALSE(TryUse(approved.operation));
  EXPECT_EQ(Latest(elsewhere.operation).phase, Phase::kClaimed);
  auto undoing = Await(ledger_->MoveFlow({.number = moved->number,
                                          .from = FlowPhase::kBreaking,
                                          .to = FlowPhase::kUndoing,
                                          .cause = FlowCause::kSettled,
                                          .reason = ""},
                                         executor_),
                       executor_);
  EXPECT_TRUE(undoing) << "what waited is no obstacle";
}

TEST_P(ApprovalContractTest, OneCallerCannotFloodTheApprovers) {
  NewOperation call = Asking("k0");
  call.quota.pending_approvals = 2;
  Begin(call);
  call.event.key = DigestOf("k1");
  Begin(call);
  call.event.key = DigestOf("k2");
  const auto refused = Await(ledger_->Begin(call, executor_), executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kQuotaExceeded);
  call.event.caller = "agent-2";
  EXPECT_EQ(Begin(call).kind, Kind::kHeld);
  call.event.caller = "agent-1";
  call.event.key = DigestOf("k1");
  EXPECT_EQ(Begin(call).kind, Kind::kHeld) << "a repeat is no further question";
}

TEST_P(ApprovalContractTest, RetentionKeepsWhatWaits) {
  NewOperation call = Asking("k");
  call.approval->expires = std::chrono::hours(24 * 30);
  const Event asked = Begin(std::move(call)).event;
  ledger_->SetRule({.retention = Millis(1'000), .tombstones = Millis(1'000)});
  for (int i = 0; i < 40; ++i) {
    clock_.Advance(Millis(100));
    Begin(Call("other" + std::to_string(i)));
  }
  const Event event = Latest(asked.operation);
  EXPECT_EQ(event.phase, Phase::kClaimed);
  ASSERT_TRUE(event.request && event.approval);
  EXPECT_EQ(Say(OrderKind::kApprove, asked).event.phase, Phase::kApproved);
}

TEST_P(ApprovalContractTest, WhatHadNoEffectIsAskedAgain) {
  const Event asked = Ask();
  Say(OrderKind::kApprove, asked);
  const auto used = TryUse(asked.operation);
  ASSERT_TRUE(used && Await(used->commit->Durable(), executor_));
  ASSERT_TRUE(
      Await(ledger_->Record(Move(used->event, Phase::kNotSent, Cause::kConnectFailed), executor_),
            executor_));
  const Begun again = Begin(Asking("k"));
  EXPECT_EQ(again.kind, Kind::kHeld);
  EXPECT_EQ(again.event.phase, Phase::kClaimed);
  EXPECT_FALSE(TryUse(asked.operation));
}

INSTANTIATE_TEST_SUITE_P(Stores, ApprovalContractTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::approval_contract_test
