// After a database, or the directory of a ledger, went back to an older copy another call may have
// the number of one that a process still knows: what is said of that one is not taken of this one.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "tests/ledger/approval_ledger.h"

namespace recourse::other_call_test {
namespace {

using Kind = Begun::Kind;

const Digest kOther = DigestOf("another call's");

class OtherCallTest : public ApprovalLedgerTest {
 protected:
  Event Dispatch(NewOperation call) {
    Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    return std::move(begun.event);
  }
  Event Record(Transition transition) {
    auto event = Await(ledger_->Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  static NewOperation Step(std::string_view key, std::string_view flow = "flow-1") {
    NewOperation call = Call(key, flow);
    call.event.is_step = true;
    return call;
  }
  Event Done(std::string_view key, std::string_view flow = "flow-1") {
    Transition transition = Success(Dispatch(Step(key, flow)));
    transition.undo = RenderedRequest{"DELETE", "/orders/7", {}, ""};
    return Record(std::move(transition));
  }
  FlowState FlowOf(const Event& step) {
    auto flow = Await(ledger_->FindOpenFlow(step.caller, step.flow, executor_), executor_);
    EXPECT_TRUE(flow && *flow);
    return flow && *flow ? std::move(**flow) : FlowState();
  }
  Result<FlowState> TryMove(FlowMove move) {
    return Await(ledger_->MoveFlow(std::move(move), executor_), executor_);
  }
  void ExpectRefused(FlowMove move, const char* what) {
    const std::uint64_t last = ledger_->Stats().last_id;
    const auto refused = TryMove(std::move(move));
    ASSERT_FALSE(refused) << what;
    EXPECT_EQ(refused.error().code(), ErrorCode::kInternal) << what;
    EXPECT_EQ(ledger_->Stats().last_id, last) << "something was written: " << what;
  }
  FlowState MoveTo(const FlowState& state, FlowPhase to) {
    auto moved = TryMove(FlowMove::Of(state, to, FlowCause::kHuman, "because"));
    EXPECT_TRUE(moved) << (moved ? "" : moved.error().detail());
    return moved ? std::move(*moved) : FlowState();
  }
};

TEST_P(OtherCallTest, NobodyHadItsAnswer) {
  const Event first = Record(Success(Dispatch(Call("k"))));
  AttemptId other = AttemptId::Of(first);
  other.key = kOther;
  ledger_->MarkAnswered(other);
  EXPECT_FALSE(Begin(Call("k")).is_answered);
  ledger_->MarkAnswered(AttemptId::Of(first));
  EXPECT_TRUE(Begin(Call("k")).is_answered);
  ledger_->MarkUnread(other);
  EXPECT_TRUE(Begin(Call("k")).is_answered);
  ledger_->MarkUnread(AttemptId::Of(first));
  EXPECT_FALSE(Begin(Call("k")).is_answered);
}

TEST_P(OtherCallTest, ItsFlowIsNotMoved) {
  const Event step = Done("a");
  const FlowState flow = FlowOf(step);
  const FlowMove own = FlowMove::Of(flow, FlowPhase::kBreaking, FlowCause::kHuman, "because");
  EXPECT_EQ(own.number, step.operation);
  EXPECT_EQ(own.from, FlowPhase::kOpen);
  FlowMove other = own;
  other.flow = "flow-2";
  ExpectRefused(other, "another name");
  other = own;
  other.caller = "agent-2";
  ExpectRefused(other, "another caller");
  other = own;
  --other.began_ms;
  ExpectRefused(other, "another beginning");
  Restart();
  if (GetParam() != Store::kMemory) EXPECT_EQ(FlowOf(step).began_ms, flow.began_ms);
  EXPECT_TRUE(TryMove(own));
}

TEST_P(OtherCallTest, ItsEffectMayNotStayByThat) {
  const Event step = Done("a");
  const FlowState undoing = MoveTo(MoveTo(FlowOf(step), FlowPhase::kBreaking), FlowPhase::kUndoing);
  FlowMove move = FlowMove::Of(undoing, FlowPhase::kUndoing, undoing.cause, "needs no undo");
  move.not_needed = {{step.operation, kOther}};
  ExpectRefused(move, "another step");
  move.not_needed = {{step.operation, step.key}};
  const auto moved = TryMove(move);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->steps.at(0).end, StepEnd::kNotNeeded);
}

TEST_P(OtherCallTest, ItWasNotSeenAtTheDeadline) {
  const Event sent = Dispatch(Step("a"));
  FlowMove move = FlowMove::Of(FlowOf(sent), FlowPhase::kBreaking, FlowCause::kDeadline, "late");
  move.deciding = {sent.tool};
  move.seen = {{sent.operation, kOther, sent.phase}};
  ExpectRefused(move, "another step");
  move.seen = {{sent.operation, sent.key, sent.phase}};
  EXPECT_TRUE(TryMove(move));
}

TEST_P(OtherCallTest, ItIsNotUndoneByTheUndoOfAnother) {
  const Event step = Done("a");
  MoveTo(MoveTo(FlowOf(step), FlowPhase::kBreaking), FlowPhase::kUndoing);
  const auto undo_of = [&](const Digest& forward) {
    NewOperation call = Call("", step.flow);
    call.event.key = UndoKeyOf(forward, step.operation);
    call.event.undoes = step.operation;
    return call;
  };
  const auto refused = Await(ledger_->Begin(undo_of(kOther), executor_), executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInternal);
  EXPECT_EQ(Begin(undo_of(step.key)).kind, Kind::kFresh);
}

TEST_P(OtherCallTest, ItIsNotSentByTheApprovalOfAnother) {
  const Event asked = Ask();
  Say(ApprovalOrder::Kind::kApprove, asked);
  NewOperation call = Call("ignored");
  call.approved = asked.operation;
  call.policy_in_force = kPolicy;
  call.approved_key = kOther;
  const auto refused = Await(ledger_->Begin(call, executor_), executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kInternal);
  EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
  EXPECT_EQ(Latest(asked.operation).phase, Phase::kApproved);
  call.approved_key = asked.key;
  EXPECT_EQ(Begin(std::move(call)).kind, Kind::kFresh);
}

INSTANTIATE_TEST_SUITE_P(Stores, OtherCallTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& of) { return NameOf(of.param); });

}  // namespace
}  // namespace recourse::other_call_test
