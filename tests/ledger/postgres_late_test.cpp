// What was on its way to a database that did not answer, and happens after whoever waited for it
// was told that nobody knows.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/approval_ledger.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_late_test {
namespace {

using Kind = Begun::Kind;

// Nobody else can change these rows while it lives.
class HeldRows {
 public:
  HeldRows(const std::string& url, const std::string& rows) {
    auto session = PgConnection::Open({.url = url});
    EXPECT_TRUE(session);
    session_ = std::move(*session);
    EXPECT_TRUE(
        session_->Execute("SET idle_in_transaction_session_timeout = 0; BEGIN;"
                          " SELECT 1 FROM " +
                          rows + " FOR UPDATE"));
  }

 private:
  std::unique_ptr<PgConnection> session_;
};

class LateTest : public PostgresUpkeepTest {
 protected:
  bool IsUp() { return dynamic_cast<SharedLedgerView&>(*one_).SharedCounts().is_up; }
  std::shared_ptr<const std::atomic<int>> CountTakeOvers() {
    auto count = std::make_shared<std::atomic<int>>(0);
    one_->OnTakeOver([count] { ++*count; });
    return count;
  }
  // Runs it up to its batch, which these rows keep from being answered before its waiter is told.
  template <class T>
  T ToldEarly(Task<T> verb, const std::string& rows) {
    const HeldRows held(url_, rows);
    Started<T> started(std::move(verb));
    EXPECT_TRUE(HappensSoon([this] { return !IsUp(); }));
    clock_.Advance(PgLedgerOptions().wait);
    return started.Get(executor_);
  }
};

// Its first attempt may have had its effect, whatever became of the second.
TEST_F(LateTest, AResendForWhichNobodyWaitsLeavesTheCallUnknown) {
  const Event sent = Dispatch(*one_, KeyedCall("k", Millis(600'000)));
  Record(*one_, Move(sent, Phase::kUncertain));
  NewOperation again = KeyedCall("k", Millis(600'000));
  again.passes_fence = true;  // as a flow that breaks has it sent again
  again.event.operation = sent.operation;
  const auto told = ToldEarly(one_->Begin(std::move(again), executor_), "operation");
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().delivery(), Delivery::kUncertain);
  Result<Begun> now = std::unexpected(Error());
  const auto seen_to = CountTakeOvers();
  ASSERT_TRUE(HappensSoon([&] {
    now = TryBegin(*other_, Call("k"));
    return now && now->kind != Kind::kRunning;
  }));
  EXPECT_EQ(now->kind, Kind::kUnknown);
  EXPECT_EQ(now->event.phase, Phase::kUncertain);
  EXPECT_TRUE(HappensSoon([&] { return *seen_to == 1; })) << "it is to be settled here";
  EXPECT_EQ(Problem(), "");
}

// Nobody else would see to what it has moved.
TEST_F(LateTest, WhatIsOrderedAndHappensIsSeenTo) {
  NewOperation step = Call("step");
  step.event.is_step = true;
  const Event sent = Record(*one_, Success(Dispatch(*one_, std::move(step))));
  const auto seen_to = CountTakeOvers();
  FlowMove move{.caller = sent.caller, .flow = sent.flow, .reason = "r"};
  move.told_by = MonoTime();
  const auto moved = ToldEarly(one_->MoveFlow(std::move(move), executor_), "flow");
  ASSERT_FALSE(moved);
  EXPECT_TRUE(HappensSoon([&] { return *seen_to == 1; }));
  const auto flows = Await(one_->OwnFlows(0, 10, executor_), executor_);
  ASSERT_TRUE(flows && flows->size() == 1U);
  EXPECT_EQ(flows->front().phase, FlowPhase::kBreaking);
  EXPECT_EQ(Problem(), "");
}

// A step in a flow whose row is held: what begins it waits for that alone.
class LateStepTest : public LateTest {
 protected:
  void SetUp() override { Finish(*one_, Step("before")); }
  static NewOperation Step(std::string_view key) {
    NewOperation call = Call(key);
    call.event.is_step = true;
    return call;
  }
  using PostgresUpkeepTest::Finish;
  Event Finish(Ledger& ledger, NewOperation call) {
    return Record(ledger, Success(Dispatch(ledger, std::move(call)), "answer"));
  }
};

// Its client knows that it was not executed, and no human is to send it after that.
TEST_F(LateStepTest, WhatAsksForNobodyIsTakenBack) {
  ASSERT_FALSE(ToldEarly(one_->Begin(Asking("k"), executor_), "flow"));
  EXPECT_TRUE(HappensSoon([this] {
    const auto claims = Await(one_->Claims(0, 10, executor_), executor_);
    return claims && claims->empty();
  }));
  const Begun again = *TryBegin(*other_, Asking("k"));
  EXPECT_EQ(again.kind, Kind::kHeld);
  EXPECT_EQ(again.event.phase, Phase::kClaimed);
  EXPECT_EQ(Problem(), "");
}

// Who observes has it sent all the same.
TEST_F(LateStepTest, WhatWasOnlyObservedIsNotSaidToBeUnsent) {
  NewOperation seen = Step("seen");
  seen.event.verdict = ObserveVerdict::kFresh;
  ASSERT_FALSE(ToldEarly(one_->Begin(std::move(seen), executor_), "flow"));
  EXPECT_TRUE(HappensSoon(
      [this] { return Ask("SELECT count(*) FROM event WHERE kind = 1 AND phase = 6") == 1; }));
  EXPECT_EQ(Ask("SELECT count(*) FROM event WHERE kind = 1 AND phase = 9"), 0) << "not sent";
  EXPECT_EQ(Problem(), "");
}

// It writes that its key means the operation from now on, and begins nothing.
TEST_F(LateTest, ARepeatUnderAnotherTraceForWhichNobodyWaits) {
  const auto on_trace = [](const std::string& name) {
    NewOperation call = Call("key of " + name, name);
    call.event.intent = DigestOf("intent");
    call.across_traces = AcrossTraces::kIfUnanswered;
    return call;
  };
  Record(*one_, Move(Dispatch(*one_, on_trace("t1")), Phase::kUncertain));
  ASSERT_FALSE(ToldEarly(one_->Begin(on_trace("t2"), executor_), "operation"));
  EXPECT_TRUE(HappensSoon([&] {
    const auto now = TryBegin(*one_, on_trace("t2"));
    return now && now->kind == Kind::kUnknown;
  }));
  EXPECT_EQ(Problem(), "");
}

}  // namespace
}  // namespace recourse::postgres_late_test
