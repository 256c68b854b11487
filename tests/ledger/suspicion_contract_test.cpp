// What every Ledger must do with calls that look like repeats where the policy asks a human.
#include <gmock/gmock.h>

#include "filters/ledger/model/row_id.h"
#include "tests/ledger/approval_ledger.h"

namespace recourse::suspicion_contract_test {
namespace {

using testing::HasSubstr;
using Kind = Begun::Kind;
using OrderKind = ApprovalOrder::Kind;

// A call that is sent at once, unless it looks like a repeat.
NewOperation Doubted(std::string_view key, std::string_view trace = "trace-1",
                     std::string_view args = "args") {
  NewOperation call = Asking(key, trace);
  call.suspicion = {.ask = *call.approval, .request = call.event.request};
  call.suspicion->ask.why.clear();
  call.approval.reset();
  call.event.request.reset();
  call.event.intent = DigestOf("intent");
  call.event.args_hash = DigestOf(args);
  call.across_traces = AcrossTraces::kAsk;
  call.on_mismatch = OnMismatch::kAsk;
  return call;
}

class SuspicionContractTest : public ApprovalLedgerTest {
 protected:
  // Sent, successful, and its answer has reached the agent.
  Event Answered(NewOperation call) {
    const Event first = Begin(std::move(call)).event;
    EXPECT_EQ(first.phase, Phase::kDispatching);
    EXPECT_TRUE(Await(ledger_->Record(Success(first), executor_), executor_));
    ledger_->MarkAnswered({first.operation, first.attempt});
    return first;
  }
  // A new question.
  Event Suspected(NewOperation call) {
    Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Kind::kHeld);
    EXPECT_NE(begun.commit, nullptr);
    EXPECT_EQ(begun.event.phase, Phase::kClaimed);
    return begun.event;
  }
  Event Dispatched(const Event& asked) {
    EXPECT_EQ(Say(OrderKind::kApprove, asked).event.phase, Phase::kApproved);
    const auto used = TryUse(asked.operation);
    EXPECT_TRUE(used && used->kind == Kind::kFresh);
    EXPECT_TRUE(Await(used->commit->Durable(), executor_));
    return used->event;
  }
  void End(const Event& sent, Phase phase, Cause cause) {
    EXPECT_TRUE(Await(ledger_->Record(Move(sent, phase, cause), executor_), executor_));
  }
};

TEST_P(SuspicionContractTest, TheSameCallUnderAnotherTraceWaitsForAHuman) {
  const Event first = Answered(Doubted("k1"));
  const Event asked = Suspected(Doubted("k2", "trace-2"));
  EXPECT_NE(asked.operation, first.operation);
  EXPECT_EQ(asked.approval->repeats, first.operation);
  EXPECT_THAT(asked.approval->why,
              HasSubstr("suspected duplicate: operation " + PrintRowId(first.operation) +
                        ", which is SUCCEEDED, is the same call under another trace"));
  Restart();
  EXPECT_EQ(Latest(asked.operation).approval->repeats, first.operation);
  // Its own repeats, and those under a third trace, are no second question.
  EXPECT_EQ(Begin(Doubted("k2", "trace-2")).event.operation, asked.operation);
  const Begun third = Begin(Doubted("k3", "trace-3"));
  EXPECT_EQ(third.kind, Kind::kHeld);
  EXPECT_EQ(third.event.operation, asked.operation);
  EXPECT_EQ(Begin(Doubted("k1")).kind, Kind::kReplay) << "what was done is done";
  const Event sent = Dispatched(asked);
  EXPECT_FALSE(TryUse(asked.operation)) << "it is used up";
  ASSERT_TRUE(Await(ledger_->Record(Success(sent, "again"), executor_), executor_));
  EXPECT_EQ(Begin(Doubted("k2", "trace-2")).event.answer.body, "again");
  EXPECT_EQ(Begin(Doubted("k3", "trace-3")).event.answer.body, "again");
  EXPECT_EQ(Begin(Doubted("k1")).event.operation, first.operation);
}

TEST_P(SuspicionContractTest, ANoHoldsForTheNextTraceAndLeavesTheSuspicionForWhatFollows) {
  const Event first = Answered(Doubted("k1"));
  const Event asked = Suspected(Doubted("k2", "trace-2"));
  EXPECT_EQ(Say(OrderKind::kReject, asked).event.phase, Phase::kDenied);
  EXPECT_EQ(Begin(Doubted("k2", "trace-2")).kind, Kind::kReplay) << "no is an answer";
  Restart();
  const Begun refused = Begin(Doubted("k3", "trace-3"));
  EXPECT_EQ(refused.kind, Kind::kReplay);
  EXPECT_EQ(refused.event.operation, asked.operation);
  clock_.Advance(Millis(60'001));
  const Event anew = Suspected(Doubted("k3", "trace-3"));
  EXPECT_EQ(anew.approval->repeats, first.operation);
  clock_.Advance(Millis(60'001));
  Decide({.kind = OrderKind::kExpire, .operation = anew.operation, .policy = kPolicy});
  EXPECT_EQ(Latest(anew.operation).phase, Phase::kExpired);
  EXPECT_EQ(Suspected(Doubted("k4", "trace-4")).approval->repeats, first.operation);
}

TEST_P(SuspicionContractTest, AnotherPolicyHasItAskedAnew) {
  const Event first = Answered(Doubted("k1"));
  const Event asked = Suspected(Doubted("k2", "trace-2"));
  Say(OrderKind::kApprove, asked);
  ASSERT_TRUE(TryUse(asked.operation, DigestOf("a new policy")));
  EXPECT_EQ(Latest(asked.operation).cause, Cause::kPolicyChanged);
  const Event anew = Suspected(Doubted("k2", "trace-2"));
  EXPECT_EQ(anew.operation, asked.operation);
  EXPECT_EQ(anew.approval->repeats, first.operation);
}

TEST_P(SuspicionContractTest, WhatWasProvablyNotSentNeedsAnotherApproval) {
  const Event first = Answered(Doubted("k1"));
  const Event asked = Suspected(Doubted("k2", "trace-2"));
  End(Dispatched(asked), Phase::kNotSent, Cause::kConnectFailed);
  const Event anew = Suspected(Doubted("k2", "trace-2"));
  EXPECT_EQ(anew.operation, asked.operation);
  EXPECT_EQ(anew.approval->repeats, first.operation);
  End(Dispatched(anew), Phase::kNotSent, Cause::kConnectFailed);
  EXPECT_NE(Suspected(Doubted("k3", "trace-3")).operation, asked.operation);
  // The same where the key is the other one's.
  const Event other = Suspected(Doubted("k1", "trace-1", "other"));
  End(Dispatched(other), Phase::kNotSent, Cause::kConnectFailed);
  EXPECT_EQ(Suspected(Doubted("k1", "trace-1", "other")).operation, other.operation);
}

TEST_P(SuspicionContractTest, AnUnknownOutcomeIsNotFoundOutWithTheSameApproval) {
  Answered(Doubted("k1"));
  for (const auto& [key, trace, args] :
       {std::tuple("k2", "trace-2", "args"), std::tuple("k1", "trace-1", "other")}) {
    NewOperation call = Doubted(key, trace, args);
    call.may_resend = true;
    const Event asked = Suspected(call);
    End(Dispatched(asked), Phase::kUncertain, Cause::kTimeout);
    const Begun repeat = Begin(call);
    EXPECT_EQ(repeat.kind, Kind::kUnknown) << key;
    EXPECT_EQ(repeat.event.operation, asked.operation) << key;
  }
}

TEST_P(SuspicionContractTest, OtherArgumentsUnderTheSameKeyAreACallOfTheirOwnOnceApproved) {
  const Event first = Answered(Doubted("k"));
  const Event asked = Suspected(Doubted("k", "trace-1", "other"));
  EXPECT_NE(asked.operation, first.operation);
  EXPECT_NE(asked.key, first.key);
  EXPECT_EQ(asked.approval->repeats, first.operation);
  EXPECT_THAT(asked.approval->why, HasSubstr("has the same key and other arguments"));
  EXPECT_EQ(Begin(Doubted("k", "trace-1", "other")).event.operation, asked.operation);
  EXPECT_NE(Suspected(Doubted("k", "trace-1", "third")).operation, asked.operation);
  EXPECT_EQ(Begin(Doubted("k")).event.operation, first.operation);
  const Event sent = Dispatched(asked);
  EXPECT_EQ(sent.key, asked.key);
  EXPECT_EQ(Begin(Doubted("k", "trace-1", "other")).kind, Kind::kRunning);
  ASSERT_TRUE(Await(ledger_->Record(Success(sent, "other"), executor_), executor_));
  Restart();
  EXPECT_EQ(Begin(Doubted("k", "trace-1", "other")).event.answer.body, "other");
  EXPECT_EQ(Begin(Doubted("k")).event.operation, first.operation);
  EXPECT_TRUE(ledger_->Verify().ok);
}

TEST_P(SuspicionContractTest, OtherArgumentsAreAskedAboutWhateverBecameOfTheFirst) {
  const Event first = Begin(Doubted("k")).event;
  EXPECT_THAT(Suspected(Doubted("k", "trace-1", "a")).approval->why, HasSubstr("DISPATCHING"));
  End(first, Phase::kUncertain, Cause::kTimeout);
  EXPECT_THAT(Suspected(Doubted("k", "trace-1", "b")).approval->why, HasSubstr("UNCERTAIN"));
}

TEST_P(SuspicionContractTest, AWindowThatIsOverLeavesNothingToSuspect) {
  NewOperation call = Doubted("k");
  call.dedupe_window = Millis(10'000);
  Answered(call);
  NewOperation other = Doubted("k", "trace-1", "other");
  other.dedupe_window = Millis(10'000);
  const Event asked = Suspected(other);
  ASSERT_TRUE(Await(ledger_->Record(Success(Dispatched(asked)), executor_), executor_));
  EXPECT_EQ(Begin(other).kind, Kind::kReplay);
  clock_.Advance(Millis(10'001));
  const Event next = Begin(other).event;
  EXPECT_EQ(next.phase, Phase::kDispatching);
  EXPECT_EQ(next.generation, 1U);
}

TEST_P(SuspicionContractTest, ARuleThatAsksAnywayIsToldOfTheSuspicionToo) {
  const Event first = Answered(Doubted("k1"));
  NewOperation large = Doubted("k2", "trace-2");
  large.approval = large.suspicion->ask;
  large.approval->why = "amount > 1000";
  large.event.request = large.suspicion->request;
  EXPECT_THAT(
      Suspected(large).approval->why,
      HasSubstr("amount > 1000; suspected duplicate: operation " + PrintRowId(first.operation)));
}

TEST_P(SuspicionContractTest, WhatCannotBeKeptOrAskedAboutIsNotSent) {
  Answered(Doubted("k1"));
  NewOperation large = Doubted("k2", "trace-2");
  large.suspicion->request.reset();
  const auto refused = Await(ledger_->Begin(large, executor_), executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kRequestTooLarge);
  NewOperation unasked = Doubted("k3", "trace-3");
  unasked.suspicion.reset();
  EXPECT_EQ(Begin(unasked).kind, Kind::kSuspected);
}

INSTANTIATE_TEST_SUITE_P(Stores, SuspicionContractTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::suspicion_contract_test
