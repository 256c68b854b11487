// Calls of one intent under several traces stay one operation, also when the ledger is opened again
// between any two of them.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::across_traces_test {
namespace {

using Kind = Begun::Kind;

enum class Between : std::uint8_t { kNothing, kRestart };

class AcrossTracesTest : public testing::TestWithParam<std::pair<Store, Between>> {
 protected:
  static NewOperation OnTrace(const std::string& name) {
    NewOperation call = Call("key of " + name, name);
    call.event.intent = DigestOf("intent");
    call.across_traces = AcrossTraces::kIfUnanswered;
    return call;
  }
  Begun Begin(NewOperation call) {
    auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  Event Dispatch(NewOperation call) {
    const Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    EXPECT_TRUE(begun.commit && Await(begun.commit->Durable(), executor_));
    return begun.event;
  }
  Event Record(Transition transition) {
    auto event = Await(ledger_->Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  // Only while nothing is dispatching.
  void PassTime() {
    if (GetParam().second == Between::kRestart) Open();
  }
  // The same as after a kill: what the index knew comes from the rows alone.
  void ForgetTheIndex() {
    if (GetParam().second == Between::kNothing) return;
    ledger_.reset();
    store_.DropIndex();
    Open();
  }
  void Open() {
    ledger_.reset();
    ledger_ = store_.Open(clock_);
  }
  std::size_t Operations() {
    std::set<std::uint64_t> operations;
    const auto page = ledger_->List({.limit = 1'000});
    EXPECT_TRUE(page && !page->more);
    for (const Event& event : page->events) operations.insert(event.operation);
    return operations.size();
  }
  void ExpectReplayOf(const Event& event, const std::string& trace) {
    const Begun begun = Begin(OnTrace(trace));
    EXPECT_EQ(begun.kind, Kind::kReplay) << trace;
    EXPECT_EQ(begun.event.operation, event.operation) << trace;
    EXPECT_EQ(begun.event.key, event.key) << trace;
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam().first};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(AcrossTracesTest, AResendByAnyKeyIsTheNextAttemptOfTheOperation) {
  const Event first = Dispatch(OnTrace("t1"));
  Record(Move(first, Phase::kUncertain, Cause::kTimeout));
  int attempt = 1;
  for (const char* trace : {"t2", "t2", "t1", "t3", "t2"}) {
    PassTime();
    NewOperation call = OnTrace(trace);
    call.may_resend = true;
    const Event resend = Dispatch(std::move(call));
    EXPECT_EQ(resend.operation, first.operation) << trace;
    EXPECT_EQ(resend.key, first.key) << trace;
    EXPECT_EQ(resend.attempt, ++attempt) << trace;
    Record(Move(resend, Phase::kUncertain, Cause::kTimeout));
  }
  EXPECT_EQ(Operations(), 1U);
  EXPECT_EQ(ledger_->Stats().uncertain, 1U);
}

TEST_P(AcrossTracesTest, AfterProvenAbsenceTheKeyThatJoinedDispatchesForAll) {
  const Event first = Dispatch(OnTrace("t1"));
  const Event uncertain = Record(Move(first, Phase::kUncertain, Cause::kTimeout));
  EXPECT_EQ(Begin(OnTrace("t2")).kind, Kind::kUnknown);
  PassTime();
  Record(Move(uncertain, Phase::kProvenAbsent, Cause::kProbeAbsent));
  PassTime();
  const Event second = Dispatch(OnTrace("t2"));
  EXPECT_EQ(second.operation, first.operation);
  EXPECT_EQ(second.key, first.key);
  EXPECT_EQ(second.attempt, 2);
  Record(Success(second));
  for (const char* trace : {"t1", "t2", "t1", "t3"}) {
    PassTime();
    ExpectReplayOf(second, trace);
  }
  EXPECT_TRUE(ledger_->Verify().ok);
}

TEST_P(AcrossTracesTest, AKeyThatWasNotSentFollowsTheCallThatWasMadeInItsPlace) {
  for (const Phase nothing : {Phase::kNotSent, Phase::kProvenAbsent, Phase::kRejected}) {
    const std::string name(NameOf(nothing));
    const auto call = [&](const std::string& trace) {
      NewOperation operation = OnTrace(trace + name);
      operation.event.intent = DigestOf(name);
      return operation;
    };
    Event first = Dispatch(call("t1"));
    if (nothing == Phase::kProvenAbsent) first = Record(Move(first, Phase::kUncertain));
    Record(Move(first, nothing));
    const Event second = Dispatch(call("t2"));
    EXPECT_NE(second.operation, first.operation) << name;
    Record(Success(second));
    clock_.Advance(Millis(60'001));
    PassTime();
    ledger_->MarkAnswered(
        {first.operation, first.attempt});  // written after the alias that hides it
    for (int i = 0; i < 2; ++i) {
      const Begun repeat = Begin(call("t1"));
      EXPECT_EQ(repeat.kind, Kind::kReplay) << name;
      EXPECT_EQ(repeat.event.operation, second.operation) << name;
      PassTime();
      ledger_->MarkAnswered({second.operation, second.attempt});
    }
  }
  EXPECT_TRUE(ledger_->Verify().ok);
}

TEST_P(AcrossTracesTest, TheOperationThatWasSentLastStandsForTheIntent) {
  const Event first = Dispatch(OnTrace("t1"));
  Record(Move(first, Phase::kNotSent, Cause::kConnectFailed));
  Record(Move(Dispatch(OnTrace("t2")), Phase::kNotSent, Cause::kConnectFailed));
  PassTime();
  const Event again = Dispatch(OnTrace("t1"));
  EXPECT_EQ(again.operation, first.operation);
  Record(Success(again));
  for (const char* trace : {"t3", "t2", "t3"}) {
    PassTime();
    ExpectReplayOf(again, trace);
  }
}

// Without a trace the window rules: who joined an operation of a trace means it until then.
TEST_P(AcrossTracesTest, WithoutATraceARepeatJoinsWhatATraceBeganForAsLongAsItsWindow) {
  static constexpr Millis kWindow(60'000);
  const auto untraced = [] {
    NewOperation call = OnTrace("nothing");
    call.dedupe_window = kWindow;
    return call;
  };
  const auto replays = [&](const Event& event) {
    ForgetTheIndex();
    const Begun begun = Begin(untraced());
    EXPECT_EQ(begun.kind, Kind::kReplay);
    EXPECT_EQ(begun.event.operation, event.operation);
  };
  const Event traced = Dispatch(OnTrace("t1"));
  const Event unknown = Record(Move(traced, Phase::kUncertain, Cause::kTimeout));
  EXPECT_EQ(Begin(untraced()).kind, Kind::kUnknown);
  const Event first = Record(Success(unknown));
  ledger_->MarkAnswered({first.operation, first.attempt});
  replays(first);
  // Each further operation of the key is found by all later calls, in its own window.
  Event last = first;
  for (int turn = 0; turn < 3; ++turn) {
    clock_.Advance(2 * kWindow);
    ForgetTheIndex();
    last = Record(Success(Dispatch(untraced())));
    EXPECT_NE(last.operation, first.operation);
    replays(last);
    clock_.Advance(kWindow / 2);
    replays(last);
    ledger_->MarkAnswered({last.operation, last.attempt});
  }
  clock_.Advance(2 * kWindow);
  // Its own window is over, but not what a trace began meanwhile.
  const Event second = Record(Move(Dispatch(OnTrace("t2")), Phase::kUncertain, Cause::kTimeout));
  ForgetTheIndex();
  EXPECT_EQ(Begin(untraced()).event.operation, second.operation);
  const Event settled = Record(Success(second));
  ledger_->MarkAnswered({settled.operation, settled.attempt});
  replays(settled);
  clock_.Advance(2 * kWindow);
  ForgetTheIndex();
  const Event newest = Record(Success(Dispatch(untraced())));
  replays(newest);
  ExpectReplayOf(settled, "t2");
  EXPECT_EQ(Operations(), 6U);
  EXPECT_TRUE(ledger_->Verify().ok);
}

// Of equal calls at once under traces of their own the newest may have been answered, and others
// not.
TEST_P(AcrossTracesTest, TheRetryOfEachUnansweredCallFindsIt) {
  std::vector<Event> events;
  for (const char* trace : {"t1", "t2", "t3", "t4"}) {
    NewOperation call = OnTrace(trace);
    call.across_traces = AcrossTraces::kNever;  // the clients of the others are there still
    events.push_back(Record(Success(Dispatch(call))));
  }
  for (const std::size_t answered : {1U, 3U}) {
    ledger_->MarkAnswered({events[answered].operation, events[answered].attempt});
  }
  int retries = 0;
  for (const std::size_t unanswered : {2U, 0U}) {
    ForgetTheIndex();
    const Event& event = events[unanswered];
    ExpectReplayOf(event, "retry " + std::to_string(++retries));
    ledger_->MarkAnswered({event.operation, event.attempt});
  }
  ForgetTheIndex();
  (void)Record(Success(Dispatch(OnTrace("another call"))));
  EXPECT_TRUE(ledger_->Verify().ok);
}

// A flow that breaks looks for what its step was, and undoes it.
TEST_P(AcrossTracesTest, WhatAKeyMeantBeforeIsStillTheOperationThatItWas) {
  static constexpr Millis kWindow(60'000);
  NewOperation untraced = OnTrace("nothing");
  untraced.dedupe_window = kWindow;
  const auto expect = [&](const Event& event) {
    const auto found = Await(ledger_->Join(event.operation, clock_.Now(), executor_), executor_);
    ASSERT_TRUE(found && *found);
    EXPECT_EQ((*found)->operation, event.operation);
    EXPECT_EQ((*found)->phase, event.phase);
    EXPECT_EQ((*found)->key, event.key);
  };
  std::vector<Event> before;
  for (const char* trace : {"t1", "t2", "t3"}) {
    Event own = Record(Success(Dispatch(untraced)));
    ledger_->MarkAnswered({own.operation, own.attempt});
    before.push_back(own);
    clock_.Advance(2 * kWindow);
    ForgetTheIndex();
    const Event traced = Record(Move(Dispatch(OnTrace(trace)), Phase::kUncertain));
    EXPECT_EQ(Begin(untraced).event.operation, traced.operation);
    ForgetTheIndex();
    EXPECT_EQ(Begin(untraced).event.operation, traced.operation);
    const Event settled = Record(Success(traced));
    ledger_->MarkAnswered({settled.operation, settled.attempt});
    ForgetTheIndex();
    EXPECT_EQ(Begin(untraced).event.operation, traced.operation);
    before.push_back(settled);
    for (const Event& event : before) expect(event);
    clock_.Advance(2 * kWindow);
    ForgetTheIndex();
  }
  EXPECT_EQ(Operations(), 6U);
  EXPECT_TRUE(ledger_->Verify().ok);
}

// An answer told the key of a call that was not sent; the same call was made under another trace.
TEST_P(AcrossTracesTest, AKeyThatWasToldFollowsTheCallThatWasMadeInItsPlace) {
  for (const bool is_alias : {false, true}) {
    const auto call = [&](const std::string& trace) {
      NewOperation operation = OnTrace(trace + (is_alias ? " alias" : ""));
      operation.event.intent = DigestOf(is_alias ? "one" : "another");
      return operation;
    };
    const Event told = Record(Move(Dispatch(call("t1")), Phase::kNotSent));
    const Event second = Record(Move(Dispatch(call("t2")), Phase::kUncertain));
    if (is_alias) EXPECT_EQ(Begin(call("t1")).event.operation, second.operation);
    NewOperation echo = call("named");
    echo.event.intent = Digest{};
    echo.named = told.key;
    for (int i = 0; i < 2; ++i) {
      PassTime();
      const Begun begun = Begin(echo);
      EXPECT_EQ(begun.kind, Kind::kUnknown);
      EXPECT_EQ(begun.event.operation, second.operation);
    }
  }
}

// Also once the one in its place has been answered, or had no effect and yet another one was made.
TEST_P(AcrossTracesTest, AKeyThatWasToldMeansWhatItsTraceWouldMean) {
  const Event told = Record(Move(Dispatch(OnTrace("t1")), Phase::kNotSent));
  const Event second = Record(Move(Dispatch(OnTrace("t2")), Phase::kUncertain));
  EXPECT_EQ(Begin(OnTrace("t1")).kind, Kind::kUnknown);
  NewOperation echo = OnTrace("named");
  echo.event.intent = Digest{};
  echo.named = told.key;
  const auto expect = [&](Kind kind, const Event& event) {
    for (const NewOperation& repeat : {echo, OnTrace("t1"), echo}) {
      PassTime();
      const Begun begun = Begin(repeat);
      EXPECT_EQ(begun.kind, kind);
      EXPECT_EQ(begun.event.operation, event.operation);
    }
  };
  expect(Kind::kUnknown, second);
  const Event absent = Record(Move(second, Phase::kProvenAbsent, Cause::kProbeAbsent));
  const Event third = Record(Move(Dispatch(OnTrace("t3")), Phase::kUncertain));
  EXPECT_NE(third.operation, absent.operation);
  expect(Kind::kUnknown, third);
  Record(Success(third));
  expect(Kind::kReplay, third);
  ledger_->MarkAnswered({third.operation, third.attempt});
  expect(Kind::kReplay, third);
  EXPECT_TRUE(ledger_->Verify().ok);
}

// Who sends an unknown step again has its request; its key may mean another operation by now.
TEST_P(AcrossTracesTest, WhoPassesTheFenceMeansTheOperationAndNotItsKey) {
  const Event step = Record(Move(Dispatch(OnTrace("t1")), Phase::kNotSent));
  Event second = Record(Move(Dispatch(OnTrace("t2")), Phase::kUncertain));
  EXPECT_EQ(Begin(OnTrace("t1")).event.operation, second.operation);
  second = Record(Move(second, Phase::kProvenAbsent, Cause::kProbeAbsent));
  NewOperation echo = OnTrace("named");
  echo.event.intent = Digest{};
  echo.named = step.key;
  echo.across_traces = AcrossTraces::kNever;
  const Event unknown = Record(Move(Dispatch(echo), Phase::kUncertain, Cause::kTimeout));
  NewOperation resend;
  resend.event = unknown;
  resend.event.key = unknown.base_key;
  resend.passes_fence = true;
  resend.may_resend = true;
  PassTime();
  const Event sent = Dispatch(std::move(resend));
  EXPECT_EQ(sent.operation, unknown.operation);
  EXPECT_EQ(sent.key, unknown.key);
}

TEST_P(AcrossTracesTest, ARefusedRewordingDoesNotBindItsKey) {
  const Event first = Dispatch(OnTrace("t1"));
  Record(Success(first));
  NewOperation reworded = OnTrace("t2");
  reworded.event.args_hash = DigestOf("other");
  EXPECT_EQ(Begin(reworded).kind, Kind::kConflict);
  PassTime();
  ledger_->MarkAnswered({first.operation, first.attempt});
  EXPECT_NE(Dispatch(reworded).operation, first.operation);
}

// Whose answer the mark is about, when its worker is quicker than the repeat and when it is not.
class MarkedAttemptTest : public AcrossTracesTest {
 protected:
  MarkedAttemptTest() { call_.failed_ttl = Millis(0); }
  Event Refused() {
    const Event first = Record(Move(Dispatch(call_), Phase::kRejected));
    clock_.Advance(Millis(1));  // marks wait for more than that
    return first;
  }
  Event Repeat() {
    const Event second = Dispatch(call_);
    EXPECT_EQ(second.attempt, 2);
    return second;
  }

  NewOperation call_ = OnTrace("t1");
};

TEST_P(MarkedAttemptTest, AMarkThatWaitsDoesNotOutliveTheAttemptItIsAbout) {
  const Event first = Refused();
  ledger_->MarkAnswered({first.operation, first.attempt});
  const Event second = Repeat();
  Record(Success(second));
  ForgetTheIndex();
  ExpectReplayOf(second, "t2");
}

TEST_P(MarkedAttemptTest, AMarkThatComesAfterTheNextAttemptBeganSaysNothingOfIt) {
  const Event first = Refused();
  const Event second = Repeat();
  ledger_->MarkAnswered({first.operation, first.attempt});
  Record(Success(second));
  ForgetTheIndex();
  ExpectReplayOf(second, "t2");
}

TEST_P(MarkedAttemptTest, TheMarkOfTheLastAttemptCounts) {
  const Event first = Refused();
  ledger_->MarkAnswered({first.operation, first.attempt});
  const Event second = Record(Success(Repeat()));
  ledger_->MarkAnswered({second.operation, second.attempt});
  ForgetTheIndex();
  EXPECT_NE(Dispatch(OnTrace("t2")).operation, second.operation);
}

std::string TimesOf(const testing::TestParamInfo<std::pair<Store, Between>>& info) {
  return info.param.second == Between::kNothing ? "InOneRun" : "WithRestarts";
}
const auto kLmdbTimes = testing::Values(std::pair(Store::kLmdb, Between::kNothing),
                                        std::pair(Store::kLmdb, Between::kRestart));
const auto kPostgresTimes = testing::Values(std::pair(Store::kPostgres, Between::kNothing),
                                            std::pair(Store::kPostgres, Between::kRestart));
INSTANTIATE_TEST_SUITE_P(Times, MarkedAttemptTest, kLmdbTimes, TimesOf);
INSTANTIATE_TEST_SUITE_P(Times, AcrossTracesTest, kLmdbTimes, TimesOf);
INSTANTIATE_TEST_SUITE_P(PostgresTimes, MarkedAttemptTest, kPostgresTimes, TimesOf);
INSTANTIATE_TEST_SUITE_P(PostgresTimes, AcrossTracesTest, kPostgresTimes, TimesOf);

}  // namespace
}  // namespace recourse::across_traces_test
