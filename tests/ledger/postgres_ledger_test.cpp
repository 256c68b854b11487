// Several processes over one ledger in PostgreSQL: whatever they do at once, each call is made once
// and everybody is told the same.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/open.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/approval_ledger.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::postgres_ledger_test {
namespace {

using Kind = Begun::Kind;

class PostgresLedgerTest : public testing::Test {
 protected:
  Begun Begin(Ledger& ledger, NewOperation call) {
    auto begun = Await(ledger.Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun) << (begun ? "" : begun.error().detail());
    return begun ? std::move(*begun) : Begun();
  }
  Event Dispatch(Ledger& ledger, NewOperation call) {
    Begun begun = Begin(ledger, std::move(call));
    EXPECT_EQ(begun.kind, Kind::kFresh);
    EXPECT_TRUE(begun.commit && Await(begun.commit->Durable(), executor_));
    return std::move(begun.event);
  }
  Event Record(Ledger& ledger, Transition transition) {
    auto event = Await(ledger.Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  static NewOperation Step(std::string_view key, std::string_view flow = "flow-1") {
    NewOperation call = Call(key, flow);
    call.event.is_step = true;
    return call;
  }
  Result<FlowState> Break(Ledger& ledger, std::string flow) {
    return Await(ledger.MoveFlow({.caller = "agent-1",
                                  .flow = std::move(flow),
                                  .from = FlowPhase::kOpen,
                                  .to = FlowPhase::kBreaking,
                                  .cause = FlowCause::kCanceled,
                                  .reason = "seen"},
                                 executor_),
                 executor_);
  }
  static void ExpectSound(Ledger& ledger) {
    const VerifyReport report = ledger.Verify();
    EXPECT_TRUE(report.ok) << report.problem;
  }
  // The number that a statement gives.
  std::int64_t Count(const std::string& what) const {
    auto connection = PgConnection::Open({.url = url_});
    EXPECT_TRUE(connection);
    const std::string sql = "SELECT " + what;
    const PgStatement statement{"test_count", sql.c_str()};
    (*connection)->Queue(statement);
    const auto rows = (*connection)->Run();
    EXPECT_TRUE(rows) << (rows ? "" : rows.error().text);
    return rows ? rows->front().Int(0, 0) : -1;
  }
  void Execute(const std::string& sql) const {
    auto connection = PgConnection::Open({.url = url_});
    EXPECT_TRUE(connection && (*connection)->Execute(sql));
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  const std::string url_ = FreshPostgresLedger();
  const std::unique_ptr<Ledger> one_ = OpenTestPostgres(url_, clock_);
  const std::unique_ptr<Ledger> other_ = OpenTestPostgres(url_, clock_);
};

TEST_F(PostgresLedgerTest, OneKeyFromBothBeginsOnce) {
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key-" + std::to_string(i);
    Started<Result<Begun>> mine(one_->Begin(Call(key), executor_));
    Started<Result<Begun>> theirs(other_->Begin(Call(key), executor_));
    const auto here = mine.Get(executor_);
    const auto there = theirs.Get(executor_);
    ASSERT_TRUE(here) << here.error().detail();
    ASSERT_TRUE(there) << there.error().detail();
    EXPECT_EQ(here->event.operation, there->event.operation);
    EXPECT_EQ(std::set({here->kind, there->kind}), std::set({Kind::kFresh, Kind::kRunning}));
  }
  EXPECT_EQ(Count("count(*) FROM operation"), 20);
  EXPECT_EQ(Count("count(*) FROM event WHERE kind = 1"), 20);
  ExpectSound(*one_);
  ExpectSound(*other_);
}

TEST_F(PostgresLedgerTest, ManyCallsAtOnceAreMadeOnceEach) {
  std::vector<std::unique_ptr<Started<Result<Begun>>>> begins;
  for (int i = 0; i < 100; ++i) {
    for (Ledger* const ledger : {one_.get(), other_.get()}) {
      begins.push_back(std::make_unique<Started<Result<Begun>>>(
          ledger->Begin(Step("key-" + std::to_string(i)), executor_)));
    }
  }
  int fresh = 0;
  for (const auto& begin : begins) {
    const auto begun = begin->Get(executor_);
    ASSERT_TRUE(begun) << begun.error().detail();
    fresh += begun->kind == Kind::kFresh ? 1 : 0;
  }
  EXPECT_EQ(fresh, 100);
  EXPECT_EQ(Count("count(*) FROM operation"), 100);
  EXPECT_EQ(Count("steps FROM flow"), 100);
  ExpectSound(*one_);
  ExpectSound(*other_);
}

TEST_F(PostgresLedgerTest, TheOtherReplaysByteForByteAndWaitsForWhatRuns) {
  const Event event = Dispatch(*one_, Call("k"));
  EXPECT_EQ(Begin(*other_, Call("k")).kind, Kind::kRunning);
  Started<Result<std::optional<Event>>> join(
      other_->Join(event.operation, clock_.Now() + Millis(60'000), executor_));
  const Event done = Record(*one_, Success(event, std::string("\0\xff body", 7)));
  const auto joined = join.Get(executor_);
  ASSERT_TRUE(joined && *joined);
  EXPECT_EQ((*joined)->id, done.id);
  const Begun repeat = Begin(*other_, Call("k"));
  EXPECT_EQ(repeat.kind, Kind::kReplay);
  EXPECT_EQ(repeat.event.answer.body, std::string("\0\xff body", 7));
  EXPECT_EQ(repeat.event.answer.headers, done.answer.headers);
}

// It is remembered beside what the other one is sending, and makes that nobody else's.
TEST_F(PostgresLedgerTest, AWordThatComesTooLateLeavesACallToWhoSendsIt) {
  const Begun asked = Begin(*one_, Asking("k"));
  ASSERT_EQ(asked.kind, Kind::kHeld);
  const std::uint64_t operation = asked.event.operation;
  ASSERT_TRUE(ApproveAt(*one_, operation, "ann", executor_));
  NewOperation use = Call("ignored");
  use.approved = operation;
  use.policy_in_force = kPolicy;
  const Event sent = Dispatch(*one_, std::move(use));
  const std::string sender = std::to_string(UnpackRowId(sent.id).stream);
  ASSERT_TRUE(ApproveAt(*other_, operation, "bob", executor_));
  EXPECT_EQ(Count("count(*) FROM event WHERE phase = 5 AND key IS NOT NULL"), 2);
  EXPECT_EQ(Count("count(*) FROM operation WHERE sender = " + sender), 1);
  EXPECT_EQ(Count("sum(open)::bigint FROM stream"), 1);
  EXPECT_EQ(Count("open FROM stream WHERE stream = " + sender), 1);
  EXPECT_EQ(other_->Stats().running, 0U);
  EXPECT_EQ(Record(*one_, Success(sent)).phase, Phase::kSucceeded);
  EXPECT_EQ(one_->Stats().running, 0U);
}

TEST_F(PostgresLedgerTest, AnOutcomeIsRecordedOnce) {
  const Event event = Dispatch(*one_, Call("k"));
  Started<Result<Event>> mine(one_->Record(Success(event), executor_));
  Started<Result<Event>> theirs(other_->Record(Move(event, Phase::kUncertain), executor_));
  EXPECT_NE(mine.Get(executor_).has_value(), theirs.Get(executor_).has_value());
}

TEST_F(PostgresLedgerTest, AFlowThatOneHasBrokenTakesNoStepOfTheOther) {
  Dispatch(*one_, Step("a"));
  Dispatch(*other_, Step("b"));
  const auto broken = Break(*one_, "flow-1");
  ASSERT_TRUE(broken) << broken.error().detail();
  EXPECT_EQ(broken->steps.size(), 2U);
  EXPECT_EQ(Begin(*other_, Step("c")).kind, Kind::kFlowClosed);
  EXPECT_EQ(Begin(*one_, Step("d")).kind, Kind::kFlowClosed);
}

// Whichever comes first: a step that began is seen by who breaks the flow, or it did not begin.
TEST_F(PostgresLedgerTest, AStepAndTheBreakOfItsFlowMeetOnOneRow) {
  for (int i = 0; i < 10; ++i) {
    const std::string flow = "race-" + std::to_string(i);
    Dispatch(*one_, Step(flow + "-first", flow));
    Started<Result<Begun>> step(other_->Begin(Step(flow + "-second", flow), executor_));
    const auto broken = Break(*one_, flow);
    const auto begun = step.Get(executor_);
    ASSERT_TRUE(begun) << begun.error().detail();
    ASSERT_TRUE(broken) << broken.error().detail();
    const bool has_begun = begun->kind == Kind::kFresh;
    EXPECT_EQ(broken->steps.size(), has_begun ? 2U : 1U);
    EXPECT_TRUE(has_begun || begun->kind == Kind::kFlowClosed);
  }
}

TEST_F(PostgresLedgerTest, AFencedStreamBeginsNothing) {
  const Event before = Dispatch(*one_, Call("before"));
  const std::string stream = std::to_string(UnpackRowId(before.id).stream);
  Execute("UPDATE stream SET state = 2 WHERE stream = " + stream);
  // The call waits, and begins under the next one.
  const Event after = Dispatch(*one_, Call("k"));
  EXPECT_NE(UnpackRowId(after.id).stream, UnpackRowId(before.id).stream);
  EXPECT_EQ(Count("count(*) FROM event WHERE kind = 1 AND stream = " + stream), 1);
  EXPECT_EQ(Count("count(*) FROM operation"), 2);
}

TEST_F(PostgresLedgerTest, AnotherInstallSecretIsRefused) {
  Execute("UPDATE ledger SET install_id = 'another'");
  EXPECT_NONFATAL_FAILURE(OpenTestPostgres(url_, clock_), "install.secret");
}

class LostAnswerTest : public PostgresLedgerTest {
 protected:
  PostgresRelay relay_{SocketOf(url_)};
  std::unique_ptr<Ledger> cut_ = OpenTestPostgres(UrlThrough(relay_.directory(), url_), clock_);
};

TEST_F(LostAnswerTest, ABatchWhoseAnswerIsLostIsReadBack) {
  relay_.LoseNext(PostgresRelay::Loses::kAnswer);
  const Event event = Dispatch(*cut_, Call("k"));
  EXPECT_TRUE(relay_.has_lost());
  EXPECT_EQ(Count("count(*) FROM event WHERE kind = 1"), 1);
  EXPECT_EQ(Begin(*one_, Call("k")).event.id, event.id);
  relay_.LoseNext(PostgresRelay::Loses::kAnswer);
  Record(*cut_, Success(event));
  EXPECT_EQ(Begin(*one_, Call("k")).kind, Kind::kReplay);
  ExpectSound(*cut_);
}

TEST_F(LostAnswerTest, ABatchThatNeverArrivedIsSentAgain) {
  relay_.LoseNext(PostgresRelay::Loses::kBatch);
  testing::internal::CaptureStderr();
  const Event event = Dispatch(*cut_, Call("k"));
  EXPECT_TRUE(relay_.has_lost());
  EXPECT_EQ(Count("count(*) FROM event WHERE kind = 1"), 1);
  relay_.LoseNext(PostgresRelay::Loses::kBatch);
  Record(*cut_, Success(event));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(log.contains("refuses")) << log;
  ExpectSound(*cut_);
}

// Whatever the server says to a batch, its call begins once.
TEST_F(LostAnswerTest, WhatBecomesOfABatchThatTheServerAnswersWithAnError) {
  struct Said {
    PostgresRelay::Word word;
    std::uint64_t again = 0, in_doubt = 0;  // the batch met another one; nobody knew of it
  };
  const Said rows[] = {
      {{.sqlstate = "40001"}, 1, 0},
      {{.sqlstate = "40P01"}, 1, 0},
      {{.sqlstate = "40003"}, 0, 1},
      {{.sqlstate = "40003", .is_committed = true}, 0, 1},
      {{.sqlstate = "57P01", .severity = "FATAL"}, 0, 1},
      {{.sqlstate = "57P01", .severity = "FATAL", .is_committed = true}, 0, 1},
      {{.sqlstate = "57P03", .severity = "FATAL"}, 0, 1},
      {{.sqlstate = "53300", .severity = "FATAL"}, 0, 1},
      {{.sqlstate = "08006"}, 0, 1},
      {{.sqlstate = "08006", .is_committed = true}, 0, 1},
      {{.sqlstate = "53100"}, 0, 0},
  };
  auto* const view = dynamic_cast<SharedLedgerView*>(cut_.get());
  int calls = 0;
  for (const auto& [word, again, in_doubt] : rows) {
    const std::string key = word.sqlstate + (word.is_committed ? " committed" : "");
    SCOPED_TRACE(key);
    const SharedLedgerCounts before = view->SharedCounts();
    relay_.AnswerNext(word);
    const Event event = Dispatch(*cut_, Call(key));
    const SharedLedgerCounts after = view->SharedCounts();
    const auto retries = [&](const SharedLedgerCounts& counts) {
      const auto found = counts.retries.find(word.sqlstate);
      return found == counts.retries.end() ? 0 : found->second;
    };
    EXPECT_EQ(retries(after) - retries(before), again);
    EXPECT_EQ(after.in_doubt - before.in_doubt, in_doubt);
    EXPECT_EQ(Count("count(*) FROM event WHERE kind = 1 AND won"), ++calls);
    EXPECT_EQ(Begin(*one_, Call(key)).event.id, event.id);
  }
  EXPECT_FALSE(cut_->Stats().restored);
  ExpectSound(*cut_);
}

TEST_F(LostAnswerTest, WhoeverRefusesAConnectionIsAskedAgain) {
  for (const char* const sqlstate : {"53300", "57P03"}) {
    relay_.LoseNext(PostgresRelay::Loses::kBatch);
    relay_.RefuseNext(sqlstate);
    Dispatch(*cut_, Call(sqlstate));
  }
  EXPECT_EQ(Count("count(*) FROM event WHERE kind = 1 AND won"), 2);
  ExpectSound(*cut_);
}

TEST_F(LostAnswerTest, WhileTheDatabaseIsAwayACallWaitsALittleAndAnOutcomeUntilItIsBack) {
  const Event event = Dispatch(*cut_, Call("k"));
  relay_.SetAway(true);
  Started<Result<Event>> outcome(cut_->Record(Success(event), executor_));
  Started<Result<Begun>> begin(cut_->Begin(Call("x"), executor_));
  clock_.Advance(Millis(2'001));
  const auto refused = begin.Get(executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
  clock_.Advance(Millis(1'001));
  EXPECT_FALSE(Await(cut_->Begin(Call("y"), executor_), executor_)) << "at once";
  EXPECT_FALSE(outcome.is_done());
  relay_.SetAway(false);
  EXPECT_TRUE(outcome.Get(executor_));
  Dispatch(*cut_, Call("y"));
  EXPECT_EQ(Begin(*one_, Call("k")).kind, Kind::kReplay);
  EXPECT_EQ(Begin(*one_, Call("x")).kind, Kind::kFresh) << "it was not sent";
  ExpectSound(*cut_);
}

// Whoever reads the log to its end would take it for the end.
TEST_F(LostAnswerTest, WhileTheDatabaseIsAwayNoListIsEmpty) {
  const Event event = Dispatch(*cut_, Step("k"));
  const EventFilter asked[] = {
      {}, {.operation = event.id}, {.after = event.id - 1}, {.up_to = event.id}, {.back = 1}};
  for (const EventFilter& filter : asked) EXPECT_EQ(cut_->List(filter)->events.size(), 1U);
  relay_.SetAway(true);
  for (const EventFilter& filter : asked) {
    const auto page = cut_->List(filter);
    ASSERT_FALSE(page);
    EXPECT_EQ(page.error().code(), ErrorCode::kLedgerUnavailable);
  }
  EXPECT_FALSE(cut_->Find(event.id));
  EXPECT_FALSE(cut_->FindFlow(event.id));
  EXPECT_FALSE(cut_->NewestFlows(1));
  relay_.SetAway(false);
  EXPECT_EQ(cut_->List({})->events.size(), 1U);
}

TEST_F(LostAnswerTest, NoMoreThanSoManyCallsWaitForTheDatabase) {
  relay_.SetAway(true);
  std::vector<std::unique_ptr<Started<Result<Begun>>>> waiting;
  for (int i = 0; i < 4'096; ++i) {
    waiting.push_back(std::make_unique<Started<Result<Begun>>>(
        cut_->Begin(Call("w" + std::to_string(i)), executor_)));
  }
  const auto refused = Await(cut_->Begin(Call("one more"), executor_), executor_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), ErrorCode::kOverloaded);
  EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
  clock_.Advance(Millis(2'001));
  for (const auto& one : waiting) EXPECT_FALSE(one->Get(executor_));
}

TEST_F(LostAnswerTest, WhileTheDatabaseIsAwayAnswersAreKeptWithinABound) {
  auto opened =
      OpenPostgresLedger({.store = {.connection = {.url = UrlThrough(relay_.directory(), url_)},
                                    .group = "shop/checkout",
                                    .install_id = "install-1",
                                    .time = PgStoreOptions::Time::kProcess},
                          .kept_bytes_max = 10},
                         clock_);
  ASSERT_TRUE(opened) << opened.error().why;
  const Event first = Dispatch(**opened, Call("a"));
  const Event second = Dispatch(**opened, Call("b"));
  relay_.SetAway(true);
  Started<Result<Begun>> begin((*opened)->Begin(Call("x"), executor_));
  clock_.Advance(Millis(2'001));
  ASSERT_FALSE(begin.Get(executor_)) << "it is away";
  Started<Result<Event>> kept((*opened)->Record(Success(first, "a"), executor_));
  Started<Result<Event>> forgotten((*opened)->Record(Success(second, "0123456789"), executor_));
  relay_.SetAway(false);
  const auto with = kept.Get(executor_), without = forgotten.Get(executor_);
  ASSERT_TRUE(with && without);
  EXPECT_TRUE(with->answer_kept);
  EXPECT_FALSE(without->answer_kept);
  EXPECT_EQ(without->phase, Phase::kSucceeded);
  EXPECT_EQ(without->external_ref, "7");
}

// Its caller was told that it did not happen, so that it must not look as if it ran.
TEST_F(LostAnswerTest, WhatWasBegunAndToldAsRefusedIsNotSent) {
  relay_.LoseNext(PostgresRelay::Loses::kAnswer);
  Started<Result<Begun>> begin(cut_->Begin(Call("k"), executor_));
  while (!relay_.has_lost()) std::this_thread::yield();
  relay_.SetAway(true);
  clock_.Advance(Millis(2'001));
  const auto told = begin.Get(executor_);
  relay_.SetAway(false);
  if (told) return;  // it was read back just before
  // New calls are refused at once until the lane has the database back.
  while (!Await(cut_->Begin(Call("other"), executor_), executor_)) std::this_thread::yield();
  const Begun again = Begin(*one_, Call("k"));
  EXPECT_EQ(again.kind, Kind::kFresh);
  EXPECT_EQ(again.event.attempt, 2);
}

}  // namespace
}  // namespace recourse::postgres_ledger_test
