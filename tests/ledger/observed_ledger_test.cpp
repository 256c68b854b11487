// Calls of observe mode: always sent, and remembered as enforce would have decided.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/begin_decision.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::observed_ledger_test {
namespace {

using Kind = Begun::Kind;
using Foreseen = ObserveVerdict;

NewOperation Observed(std::string_view key, std::string_view trace = "trace-1",
                      std::string_view args = "args") {
  NewOperation call = Call(key, trace, args);
  call.event.verdict = Foreseen::kFresh;
  return call;
}

class ObservedLedgerTest : public testing::TestWithParam<Store> {
 protected:
  void Open() {
    ledger_.reset();
    ledger_ = store_.Open(clock_);
  }
  Event Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    if (!begun) {
      ADD_FAILURE() << begun.error().detail();
      return {};
    }
    EXPECT_EQ(begun->kind, Kind::kFresh);
    EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    return begun->event;
  }
  Event Record(Transition transition) {
    auto event = Await(ledger_->Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  Event Done(NewOperation call) { return Record(Success(Begin(std::move(call)))); }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST(ForeseeTest, EveryDecisionOfEnforceHasItsVerdict) {
  struct Row {
    Kind kind;
    bool is_resend;
    Foreseen verdict;
  };
  for (const Row& row : std::vector<Row>{{Kind::kFresh, false, Foreseen::kFresh},
                                         {Kind::kFresh, true, Foreseen::kWouldResend},
                                         {Kind::kRunning, false, Foreseen::kWouldJoin},
                                         {Kind::kReplay, false, Foreseen::kWouldReplay},
                                         {Kind::kUnknown, false, Foreseen::kWouldBeUnknown},
                                         {Kind::kConflict, false, Foreseen::kWouldConflict},
                                         {Kind::kSuspected, false, Foreseen::kWouldAsk},
                                         {Kind::kCompensated, false, Foreseen::kWouldRefuse},
                                         {Kind::kExpired, false, Foreseen::kWouldRefuse},
                                         {Kind::kExhausted, false, Foreseen::kWouldRefuse}}) {
    EXPECT_EQ(PredictVerdict(Foreseen::kFresh, row.kind, row.is_resend), row.verdict)
        << static_cast<int>(row.kind);
  }
  EXPECT_EQ(PredictVerdict(Foreseen::kWouldHold, Kind::kFresh, false), Foreseen::kWouldHold);
  EXPECT_EQ(PredictVerdict(Foreseen::kWouldHold, Kind::kReplay, false), Foreseen::kWouldReplay);
}

TEST_P(ObservedLedgerTest, ARefusalToComeSaysWhy) {
  NewOperation mine = Observed("k");
  mine.event.principal = 1;
  Done(mine);
  NewOperation others = Observed("k");
  others.event.principal = 2;
  const Event refused = Begin(others);
  EXPECT_EQ(refused.verdict, Foreseen::kWouldRefuse);
  EXPECT_TRUE(refused.detail.starts_with("other-credentials: ")) << refused.detail;
  for (const Kind kind : {Kind::kCompensated, Kind::kExpired, Kind::kExhausted, Kind::kFlowClosed,
                          Kind::kTooOften, Kind::kOtherCredentials}) {
    const std::string why = WhyRefusalIsForeseen(kind);
    EXPECT_NE(why.find(": "), std::string::npos) << why;
    EXPECT_LT(why.size(), limits::kRefusalReasonBytesMax) << why;
  }
}

TEST_P(ObservedLedgerTest, ARepeatIsAnOperationOfItsOwnRelatedToTheFirst) {
  const Event first = Done(Observed("k"));
  const Event second = Done(Observed("k"));
  const Event third = Done(Observed("k"));
  EXPECT_EQ(first.verdict, Foreseen::kFresh);
  EXPECT_EQ(first.related, 0U);
  for (const Event* repeat : {&second, &third}) {
    EXPECT_EQ(repeat->verdict, Foreseen::kWouldReplay);
    EXPECT_EQ(repeat->related, first.operation);
    EXPECT_NE(repeat->operation, first.operation);
    EXPECT_NE(repeat->key, first.key);
  }
}

TEST_P(ObservedLedgerTest, TheVerdictSaysWhatTheStateOfTheFirstCallWouldHaveMeant) {
  const Event running = Begin(Observed("running"));
  EXPECT_EQ(Begin(Observed("running")).verdict, Foreseen::kWouldJoin);
  EXPECT_EQ(Begin(Observed("running", "trace-1", "other")).verdict, Foreseen::kWouldConflict);
  Record(Move(running, Phase::kUncertain, Cause::kTimeout));
  EXPECT_EQ(Begin(Observed("running")).verdict, Foreseen::kWouldBeUnknown);
  NewOperation again = Observed("running");
  again.may_resend = true;
  const Event resent = Begin(again);
  EXPECT_EQ(resent.verdict, Foreseen::kWouldResend);
  EXPECT_EQ(resent.operation, running.operation);
  EXPECT_EQ(resent.related, running.operation);
  EXPECT_EQ(resent.attempt, 2);

  const Event unsent = Begin(Observed("unsent"));
  Record(Move(unsent, Phase::kNotSent, Cause::kConnectFailed));
  const Event retried = Begin(Observed("unsent"));
  EXPECT_EQ(retried.verdict, Foreseen::kFresh);
  EXPECT_EQ(retried.related, 0U);
  EXPECT_EQ(retried.operation, unsent.operation);
}

TEST_P(ObservedLedgerTest, TheWindowCountsFromTheFirstCallNotFromItsRepeats) {
  NewOperation call = Observed("k");
  call.dedupe_window = Millis(1'000);
  const Event first = Done(call);
  clock_.Advance(Millis(700));
  EXPECT_EQ(Done(call).verdict, Foreseen::kWouldReplay);
  clock_.Advance(Millis(700));
  const Event later = Done(call);
  EXPECT_EQ(later.verdict, Foreseen::kFresh);
  EXPECT_EQ(later.generation, 1U);
  EXPECT_EQ(Done(call).related, later.operation);
}

TEST_P(ObservedLedgerTest, TheSameIntentUnderAnotherTraceIsFound) {
  const auto under = [](std::string_view key, std::string_view trace) {
    NewOperation call = Observed(key, trace);
    call.event.intent = DigestOf("intent");
    call.across_traces = AcrossTraces::kIfUnanswered;
    return call;
  };
  const Event first = Done(under("k1", "trace-1"));
  const Event retry = Done(under("k2", "trace-2"));
  EXPECT_EQ(retry.verdict, Foreseen::kWouldReplay);
  EXPECT_EQ(retry.related, first.operation);
  EXPECT_EQ(Done(under("k2", "trace-2")).related, first.operation);  // by its alias
  ledger_->MarkAnswered({first.operation, first.attempt});
  EXPECT_EQ(Done(under("k3", "trace-3")).verdict, Foreseen::kFresh);
}

TEST_P(ObservedLedgerTest, VerdictsSurviveARestartAndAnUnknownOutcomeDoesNotStayOpen) {
  const Event first = Done(Observed("k"));
  Done(Observed("k"));
  const Event cut = Begin(Observed("cut"));
  Open();  // `cut` was running
  // Of a shared one whoever lives takes that over.
  EXPECT_TRUE(
      *Await(ledger_->Join(cut.operation, clock_.Now() + Millis(60'000), executor_), executor_));
  EXPECT_EQ(Done(Observed("k")).related, first.operation);
  const auto page = ledger_->List({.operation = cut.operation});
  ASSERT_TRUE(page && page->events.size() == 2);
  EXPECT_EQ(page->events.back().phase, Phase::kUncertain);
  EXPECT_EQ(page->events.back().verdict, Foreseen::kFresh);
  EXPECT_EQ(ledger_->Stats().uncertain, 0U);
  EXPECT_EQ(ledger_->Stats().running, 0U);
  EXPECT_EQ(Begin(Observed("cut")).verdict, Foreseen::kWouldBeUnknown);
  EXPECT_TRUE(ledger_->Verify().ok);
}

INSTANTIATE_TEST_SUITE_P(Stores, ObservedLedgerTest,
                         testing::Values(Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::observed_ledger_test
