// What every Ledger must do; a backend is accepted when it passes.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "proxy/base/limits.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::ledger_contract_test {
namespace {

using Kind = Begun::Kind;

class LedgerContractTest : public testing::TestWithParam<Store> {
 protected:
  Result<Begun> TryBegin(NewOperation call) {
    return Await(ledger_->Begin(std::move(call), executor_), executor_);
  }
  Begun Begin(NewOperation call) {
    auto begun = TryBegin(std::move(call));
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  // Begins and waits until the row is durable.
  Event Dispatch(NewOperation call) {
    const Begun begun = Begin(std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    EXPECT_TRUE(begun.commit && Await(begun.commit->Durable(), executor_));
    return begun.event;
  }
  Result<Event> TryRecord(Transition transition) {
    return Await(ledger_->Record(std::move(transition), executor_), executor_);
  }
  Event Record(Transition transition) {
    auto event = TryRecord(std::move(transition));
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  std::vector<Event> Rows(EventFilter filter = {}) {
    auto page = ledger_->List(filter);
    EXPECT_TRUE(page);
    return page ? std::move(page->events) : std::vector<Event>();
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(LedgerContractTest, AFreshCallIsDispatchingWithItsIdentity) {
  const Event event = Dispatch(Call("k"));
  EXPECT_EQ(event.phase, Phase::kDispatching);
  EXPECT_EQ(event.cause, Cause::kFirstCall);
  EXPECT_EQ(event.attempt, 1);
  EXPECT_EQ(event.operation, event.id);
  EXPECT_EQ(event.epoch, 1U);
  EXPECT_EQ(event.wall_ms, ToUnixMillis(clock_.WallNow()));
  const auto found = ledger_->Find(event.id);
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->key, DigestOf("k"));
  EXPECT_EQ((*found)->tool, "orders.create");
  EXPECT_EQ((*found)->caller, "agent-1");
}

TEST_P(LedgerContractTest, ARepeatOfARunningCallIsToldSo) {
  const Event event = Dispatch(Call("k"));
  const Begun repeat = Begin(Call("k"));
  EXPECT_EQ(repeat.kind, Kind::kRunning);
  EXPECT_EQ(repeat.event.operation, event.operation);
  EXPECT_EQ(repeat.commit, nullptr);
}

TEST_P(LedgerContractTest, AFinishedCallIsReplayedByteForByte) {
  const Event event = Dispatch(Call("k"));
  Transition success = Success(event, std::string("\0\xff body", 7));
  success.undo = RenderedRequest{"DELETE", "/orders/7", {{"H", "v"}}, "{}"};
  const Event outcome = Record(std::move(success));
  EXPECT_EQ(outcome.phase, Phase::kSucceeded);
  EXPECT_EQ(outcome.operation, event.operation);
  EXPECT_GT(outcome.id, event.id);
  const Begun repeat = Begin(Call("k"));
  EXPECT_EQ(repeat.kind, Kind::kReplay);
  EXPECT_EQ(repeat.event.id, outcome.id);
  EXPECT_EQ(repeat.event.answer.status, 201);
  EXPECT_EQ(repeat.event.answer.reason, "Created");
  EXPECT_EQ(repeat.event.answer.headers,
            (Headers{{"Content-Type", "application/json"}, {"X-Request", "a"}}));
  EXPECT_EQ(repeat.event.answer.body, std::string("\0\xff body", 7));
  EXPECT_EQ(repeat.event.external_ref, "7");
  ASSERT_TRUE(repeat.event.undo);
  EXPECT_EQ(repeat.event.undo->target, "/orders/7");
}

TEST_P(LedgerContractTest, AnAnswerOverItsLimitIsRecordedButNotKept) {
  const Event event = Dispatch(Call("k"));
  const Event outcome = Record(Success(event, std::string(limits::kAnswerKeptBytesMax + 1, 'x')));
  EXPECT_FALSE(outcome.answer_kept);
  EXPECT_FALSE(Begin(Call("k")).event.answer_kept);
  const Event other = Dispatch(Call("k2"));
  EXPECT_TRUE(Record(Success(other, std::string(limits::kAnswerKeptBytesMax, 'x'))).answer_kept);
}

TEST_P(LedgerContractTest, OtherArgumentsUnderOneKeyAreAConflict) {
  const Event event = Dispatch(Call("k"));
  EXPECT_EQ(Begin(Call("k", "trace-1", "other")).kind, Kind::kConflict);
  Record(Success(event));
  EXPECT_EQ(Begin(Call("k", "trace-1", "other")).kind, Kind::kConflict);
}

TEST_P(LedgerContractTest, AnUnknownOutcomeStaysUnknown) {
  const Event event = Dispatch(Call("k"));
  const Event uncertain = Record(Move(event, Phase::kUncertain, Cause::kTimeout));
  EXPECT_EQ(uncertain.status(), Status::kPending);
  EXPECT_EQ(Begin(Call("k")).kind, Kind::kUnknown);
  clock_.Advance(std::chrono::hours(24 * 30));
  EXPECT_EQ(Begin(Call("k")).kind, Kind::kUnknown);
}

TEST_P(LedgerContractTest, ALateAnswerOfAttemptOneNeverMovesAttemptTwo) {
  const Event first = Dispatch(Call("k"));
  Record(Move(first, Phase::kUncertain, Cause::kTimeout));
  NewOperation resend = Call("k");
  resend.may_resend = true;
  const Event second = Dispatch(std::move(resend));
  EXPECT_EQ(second.attempt, 2);
  EXPECT_EQ(second.operation, first.operation);
  EXPECT_EQ(second.cause, Cause::kResend);
  const auto late = TryRecord(Move(first, Phase::kRejected));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), ErrorCode::kInternal);
  EXPECT_EQ(Begin(Call("k")).kind, Kind::kRunning);
  EXPECT_EQ(Record(Success(second)).attempt, 2);
}

// Another backend, or another key field, knows nothing of the attempt before.
TEST_P(LedgerContractTest, AnUnknownIsSentAgainOnlyUnderThePromiseItWasSentUnder) {
  NewOperation first = Call("k");
  first.event.dedupe_domain = 7;
  first.event.key_field = "";
  first.may_resend = true;
  Record(Move(Dispatch(std::move(first)), Phase::kUncertain, Cause::kTimeout));
  for (const std::uint64_t other : {std::uint64_t{0}, std::uint64_t{8}}) {
    NewOperation resend = Call("k");
    resend.may_resend = true;
    resend.event.dedupe_domain = other;
    EXPECT_EQ(Begin(std::move(resend)).kind, Kind::kUnknown);
  }
  NewOperation resend = Call("k");
  resend.may_resend = true;
  resend.event.dedupe_domain = 7;
  resend.event.key_field = "";
  EXPECT_EQ(Dispatch(std::move(resend)).attempt, 2);
}

TEST_P(LedgerContractTest, AChangeOfPolicyIsOneRowOfTheChain) {
  Record(Success(Dispatch(Call("k"))));
  const std::uint64_t rows = ledger_->Stats().last_id;
  ASSERT_TRUE(ledger_->RecordPolicy({PolicyChange::Cause::kReload, "v2", DigestOf("files")}));
  EXPECT_EQ(ledger_->Stats().last_id, rows + 1);
  EXPECT_TRUE(ledger_->Verify().ok);
  EXPECT_EQ(Begin(Call("k")).kind, Kind::kReplay);
}

TEST_P(LedgerContractTest, AnIllegalMoveWritesNothing) {
  const Event event = Dispatch(Call("k"));
  const Event outcome = Record(Success(event));
  const std::uint64_t rows = ledger_->Stats().last_id;
  for (const Phase to : {Phase::kUncertain, Phase::kNotSent, Phase::kRejected}) {
    const auto moved = TryRecord(Move(outcome, to));
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code(), ErrorCode::kInternal);
  }
  Transition stranger = Move(outcome, Phase::kCompensated);
  stranger.operation = 999'999;
  EXPECT_FALSE(TryRecord(std::move(stranger)));
  EXPECT_EQ(ledger_->Stats().last_id, rows);
}

TEST_P(LedgerContractTest, WhatWasNotSentMayBeSentAtOnceUntilAttemptsRunOut) {
  NewOperation call = Call("k");
  call.attempts_max = 2;
  const Event first = Dispatch(call);
  Record(Move(first, Phase::kNotSent, Cause::kConnectFailed));
  const Event second = Dispatch(call);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_EQ(second.operation, first.operation);
  Record(Move(second, Phase::kNotSent, Cause::kConnectFailed));
  EXPECT_EQ(Begin(call).kind, Kind::kExhausted);
}

TEST_P(LedgerContractTest, ARefusalIsReplayedForItsTime) {
  const Event first = Dispatch(Call("k"));
  Transition refused = Success(first, "no");
  refused.to = Phase::kRejected;
  refused.http_status = 400;
  Record(std::move(refused));
  clock_.Advance(Millis(60'000));
  const Begun replay = Begin(Call("k"));
  EXPECT_EQ(replay.kind, Kind::kReplay);
  EXPECT_EQ(replay.event.http_status, 400);
  EXPECT_EQ(replay.event.answer.body, "no");
  clock_.Advance(Millis(1));
  EXPECT_EQ(Dispatch(Call("k")).attempt, 2);
}

TEST_P(LedgerContractTest, APassedWindowStartsANewOperationUnderADerivedKey) {
  NewOperation call = Call("k");
  call.dedupe_window = Millis(1'000);
  const Event first = Dispatch(call);
  EXPECT_EQ(first.key, DigestOf("k"));
  EXPECT_EQ(first.window_ms, 1'000);
  Record(Success(first, "one"));
  clock_.Advance(Millis(1'000));
  EXPECT_EQ(Begin(call).event.answer.body, "one");
  clock_.Advance(Millis(1));
  const Event second = Dispatch(call);
  EXPECT_EQ(second.generation, 1U);
  EXPECT_EQ(second.attempt, 1);
  EXPECT_NE(second.operation, first.operation);
  const std::string derived =
      std::string(AsView(DigestOf("k"))) + std::string("\1\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(second.key, Sha256(derived));
  EXPECT_EQ(Begin(call).kind, Kind::kRunning);
  Record(Success(second, "two"));
  EXPECT_EQ(Begin(call).event.answer.body, "two");
  clock_.Advance(Millis(1'001));
  EXPECT_EQ(Dispatch(call).generation, 2U);
}

NewOperation OnTrace(std::string_view key, std::string_view trace,
                     AcrossTraces rule = AcrossTraces::kIfUnanswered) {
  NewOperation call = Call(key, trace);
  call.event.intent = DigestOf("intent");
  call.across_traces = rule;
  return call;
}

TEST_P(LedgerContractTest, AnUnansweredIntentUnderAnotherTraceIsARetry) {
  const Event first = Dispatch(OnTrace("k1", "trace-1"));
  EXPECT_EQ(Begin(OnTrace("k2", "trace-2")).kind, Kind::kRunning);
  Record(Success(first));
  const Begun replay = Begin(OnTrace("k2", "trace-2"));
  EXPECT_EQ(replay.kind, Kind::kReplay);
  EXPECT_EQ(replay.event.operation, first.operation);
}

TEST_P(LedgerContractTest, AnAnsweredIntentUnderAnotherTraceIsANewCall) {
  const Event first = Dispatch(OnTrace("k1", "trace-1"));
  Record(Success(first));
  ledger_->MarkAnswered({first.operation, first.attempt});
  const Event second = Dispatch(OnTrace("k2", "trace-2"));
  EXPECT_NE(second.operation, first.operation);
  EXPECT_EQ(Begin(OnTrace("k1", "trace-1")).event.operation, first.operation);
  EXPECT_EQ(Begin(OnTrace("k3", "trace-3")).event.operation, second.operation);
  EXPECT_EQ(Begin(OnTrace("k4", "trace-4", AcrossTraces::kAsk)).kind, Kind::kRunning);
}

TEST_P(LedgerContractTest, AReplaySaysWhetherAClientHasHadTheAnswer) {
  const Event first = Record(Success(Dispatch(Call("k"))));
  EXPECT_FALSE(Begin(Call("k")).is_answered);
  ledger_->MarkAnswered({first.operation, first.attempt});
  EXPECT_TRUE(Begin(Call("k")).is_answered);
  EXPECT_FALSE(Begin(Call("other")).is_answered);
}

TEST_P(LedgerContractTest, AKeyThatJoinedAnIntentKeepsMeaningItAfterTheAnswer) {
  const Event first = Dispatch(OnTrace("k1", "trace-1"));
  Record(Success(first));
  EXPECT_EQ(Begin(OnTrace("k2", "trace-2")).kind, Kind::kReplay);
  ledger_->MarkAnswered({first.operation, first.attempt});
  const Begun repeat = Begin(OnTrace("k2", "trace-2"));
  EXPECT_EQ(repeat.kind, Kind::kReplay);
  EXPECT_EQ(repeat.event.operation, first.operation);
}

TEST_P(LedgerContractTest, AResendByWayOfAnotherTraceKeepsTheOperationsIdentity) {
  const Event first = Dispatch(OnTrace("k1", "trace-1"));
  Record(Move(first, Phase::kUncertain, Cause::kTimeout));
  // k2 joins by the intent, and from then on it means the operation.
  const std::pair<const char*, const char*> resends[] = {{"k2", "trace-2"},
                                                         {"k2", "trace-2"},
                                                         {"k1", "trace-1"},
                                                         {"k3", "trace-3"},
                                                         {"k1", "trace-1"}};
  int attempt = 1;
  for (const auto& [key, trace] : resends) {
    NewOperation call = OnTrace(key, trace);
    call.may_resend = true;
    const Event resend = Dispatch(std::move(call));
    EXPECT_EQ(resend.operation, first.operation) << key;
    EXPECT_EQ(resend.attempt, ++attempt) << key;
    EXPECT_EQ(resend.key, first.key) << key;
    EXPECT_EQ(resend.trace_id, "trace-1") << key;
    EXPECT_EQ(resend.cause, Cause::kResend) << key;
    Record(Move(resend, Phase::kUncertain, Cause::kTimeout));
  }
  EXPECT_EQ(ledger_->Stats().operations, 1U);
}

TEST_P(LedgerContractTest, AProbableRepeatCanBeSuspected) {
  const Event first = Dispatch(OnTrace("k1", "trace-1"));
  Record(Success(first));
  ledger_->MarkAnswered({first.operation, first.attempt});
  EXPECT_EQ(Begin(OnTrace("k2", "trace-2", AcrossTraces::kAsk)).kind, Kind::kSuspected);
  EXPECT_EQ(Begin(OnTrace("k2", "trace-2", AcrossTraces::kAsk)).kind, Kind::kSuspected);
}

TEST_P(LedgerContractTest, ACompensatedOperationNeverRunsAgain) {
  const Event event = Record(Success(Dispatch(Call("k"))));
  Record(Move(event, Phase::kCompensated, Cause::kHuman));
  EXPECT_EQ(Begin(Call("k")).kind, Kind::kCompensated);
}

TEST_P(LedgerContractTest, JoinsEndWhenTheOperationMoves) {
  const Event event = Dispatch(Call("k"));
  const MonoTime deadline = clock_.Now() + Millis(3'000);
  Started first(ledger_->Join(event.operation, deadline, executor_));
  Started second(ledger_->Join(event.operation, deadline, executor_));
  // A later verb has been answered, so both joins have reached the ledger.
  EXPECT_EQ(Begin(Call("k")).kind, Kind::kRunning);
  EXPECT_FALSE(first.is_done() || second.is_done());
  const Event outcome = Record(Success(event));
  for (Started<Result<std::optional<Event>>>* join : {&first, &second}) {
    const auto result = join->Get(executor_);
    ASSERT_TRUE(result && *result);
    EXPECT_EQ((*result)->id, outcome.id);
    EXPECT_EQ((*result)->answer.body, "{\"id\":7}");
  }
}

TEST_P(LedgerContractTest, AJoinOfAFinishedOperationAnswersAtOnce) {
  const Event outcome = Record(Success(Dispatch(Call("k"))));
  const auto joined =
      Await(ledger_->Join(outcome.operation, clock_.Now() + Millis(1), executor_), executor_);
  ASSERT_TRUE(joined && *joined);
  EXPECT_EQ((*joined)->id, outcome.id);
}

TEST_P(LedgerContractTest, AJoinEndsAtItsDeadline) {
  const Event event = Dispatch(Call("k"));
  Started join(ledger_->Join(event.operation, clock_.Now() + Millis(3'000), executor_));
  clock_.Advance(Millis(3'000));
  Begin(Call("other"));
  const auto result = join.Get(executor_);
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result);
  const auto late = Await(ledger_->Join(event.operation, clock_.Now(), executor_), executor_);
  ASSERT_TRUE(late);
  EXPECT_FALSE(*late);
}

TEST_P(LedgerContractTest, AJoinOfNothingFails) {
  const auto joined = Await(ledger_->Join(77, clock_.Now() + Millis(1'000), executor_), executor_);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code(), ErrorCode::kInternal);
}

TEST_P(LedgerContractTest, JoinersOfOneOperationAreBounded) {
  const Event event = Dispatch(Call("k"));
  std::vector<std::unique_ptr<Started<Result<std::optional<Event>>>>> joins;
  const MonoTime deadline = clock_.Now() + Millis(3'000);
  for (std::size_t i = 0; i < limits::kJoinersPerOperationMax; ++i) {
    joins.push_back(std::make_unique<Started<Result<std::optional<Event>>>>(
        ledger_->Join(event.operation, deadline, executor_)));
  }
  const auto one_more = Await(ledger_->Join(event.operation, deadline, executor_), executor_);
  ASSERT_TRUE(one_more);
  EXPECT_FALSE(*one_more);
  Record(Success(event));
  for (const auto& join : joins) EXPECT_TRUE(join->Get(executor_).value());
}

TEST_P(LedgerContractTest, ManyRepeatsAtOnceGiveOneDispatch) {
  std::vector<std::unique_ptr<Started<Result<Begun>>>> calls;
  for (int i = 0; i < 200; ++i) {
    calls.push_back(std::make_unique<Started<Result<Begun>>>(ledger_->Begin(Call("k"), executor_)));
  }
  int fresh = 0;
  int running = 0;
  for (const auto& call : calls) {
    const Begun begun = call->Get(executor_).value();
    fresh += begun.kind == Kind::kFresh ? 1 : 0;
    running += begun.kind == Kind::kRunning ? 1 : 0;
    EXPECT_EQ(begun.event.phase, Phase::kDispatching);
  }
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(running, 199);
}

TEST_P(LedgerContractTest, OpenOperationsAreListedInOrder) {
  std::vector<Event> events;
  for (int i = 0; i < 5; ++i) events.push_back(Dispatch(Call("k" + std::to_string(i))));
  Record(Success(events[1]));
  Record(Move(events[3], Phase::kUncertain, Cause::kTimeout));
  const auto open = Await(ledger_->Open(0, 3, executor_), executor_).value();
  ASSERT_EQ(open.size(), 3U);
  EXPECT_EQ(open[0].operation, events[0].operation);
  EXPECT_EQ(open[1].operation, events[2].operation);
  EXPECT_EQ(open[2].operation, events[3].operation);
  EXPECT_EQ(open[2].phase, Phase::kUncertain);
  const auto rest = Await(ledger_->Open(open[2].operation, 3, executor_), executor_).value();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].operation, events[4].operation);
}

TEST_P(LedgerContractTest, EventsAreListedByEveryFilter) {
  const Event one = Dispatch(Call("k1", "trace-1"));
  NewOperation other = Call("k2", "trace-2");
  other.event.tool = "mail.send";
  const Event two = Dispatch(std::move(other));
  Record(Success(one));
  Record(Move(two, Phase::kUncertain, Cause::kTimeout));
  EXPECT_EQ(Rows().size(), 4U);
  EXPECT_EQ(Rows({.trace_id = "trace-1"}).size(), 2U);
  EXPECT_EQ(Rows({.tool = "mail.send"}).size(), 2U);
  EXPECT_EQ(Rows({.status = Status::kSuccess}).size(), 1U);
  EXPECT_EQ(Rows({.phase = Phase::kUncertain}).size(), 1U);
  EXPECT_EQ(Rows({.operation = two.operation}).size(), 2U);
  EXPECT_EQ(Rows({.trace_id = "trace-1", .tool = "mail.send"}).size(), 0U);
  EXPECT_EQ(Rows({.after = two.id}).size(), 2U);
  EXPECT_EQ(Rows({.after = ~std::uint64_t{0}}).size(), 0U);
  EXPECT_EQ(Rows({.status = Status::kSuccess})[0].answer.body, "");
}

TEST_P(LedgerContractTest, PagesFollowEachOther) {
  for (int i = 0; i < 7; ++i) Dispatch(Call("k" + std::to_string(i)));
  std::set<std::uint64_t> seen;
  EventFilter filter{.limit = 3};
  std::vector<std::size_t> sizes;
  for (bool more = true; more;) {
    const EventPage page = ledger_->List(filter).value();
    for (const Event& event : page.events) EXPECT_TRUE(seen.insert(event.id).second);
    sizes.push_back(page.events.size());
    more = page.more;
    filter.after = page.events.back().id;
  }
  EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 3, 1}));
  EXPECT_EQ(seen.size(), 7U);
}

TEST_P(LedgerContractTest, WhatIsNotAnEventIsNotFound) {
  EXPECT_FALSE(ledger_->Find(0).value());
  EXPECT_FALSE(ledger_->Find(1).value());  // the row of the epoch
  EXPECT_FALSE(ledger_->Find(1'000).value());
}

TEST_P(LedgerContractTest, TheHashChainVerifies) {
  for (int i = 0; i < 5; ++i) Record(Success(Dispatch(Call("k" + std::to_string(i)))));
  const VerifyReport report = ledger_->Verify();
  EXPECT_TRUE(report.ok) << report.problem;
  EXPECT_EQ(report.rows, 11U);
  EXPECT_EQ(UnpackRowId(report.last_id).number, 11U);
  EXPECT_EQ(report.head.size(), 64U);
}

TEST_P(LedgerContractTest, StatsCountWhatIsThere) {
  const Event one = Dispatch(Call("k1"));
  clock_.Advance(Millis(10));
  const Event two = Dispatch(Call("k2"));
  Dispatch(Call("k3"));
  Record(Success(one));
  Record(Move(two, Phase::kUncertain, Cause::kTimeout));
  const LedgerStats stats = ledger_->Stats();
  EXPECT_EQ(stats.operations, 3U);
  EXPECT_EQ(stats.running, 1U);
  EXPECT_EQ(stats.uncertain, 1U);
  EXPECT_EQ(UnpackRowId(stats.last_id).number, 6U);
  EXPECT_EQ(stats.epoch, 1U);
  EXPECT_GE(stats.commits, 5U);
  EXPECT_GT(stats.used_bytes, 0U);
  EXPECT_EQ(stats.oldest_pending_ms, two.wall_ms);
  EXPECT_FALSE(stats.latched);
}

INSTANTIATE_TEST_SUITE_P(Backends, LedgerContractTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& of) { return NameOf(of.param); });

}  // namespace
}  // namespace recourse::ledger_contract_test
