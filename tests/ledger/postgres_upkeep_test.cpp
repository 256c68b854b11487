// A ledger in PostgreSQL beside its verbs: it is checked by who writes none of it, and notices
// that its database went back to an older state.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/postgres/stream_watch.h"
#include "filters/ledger/postgres/upkeep/keeper.h"
#include "filters/ledger/shared_view.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_upkeep_test {
namespace {

using Kind = Begun::Kind;

TEST_F(PostgresUpkeepTest, AStreamWithoutASignOfLifeIsSilentAndNotLive) {
  auto* const view = dynamic_cast<SharedLedgerView*>(one_.get());
  const std::uint64_t stream = UnpackRowId(one_->Stats().last_id).stream;
  Execute("UPDATE stream SET at = now() - interval '4 minutes' WHERE stream <> " +
          std::to_string(stream));
  const auto streams = view->Streams();
  ASSERT_TRUE(streams);
  for (const LedgerStream& one : *streams) {
    EXPECT_EQ(one.state, one.stream == stream ? "live" : "silent");
  }
  EXPECT_EQ(streams->size(), 2U);
  EXPECT_EQ(view->PodOf(stream), "pod");
  EXPECT_EQ(view->PodOf(99), "");
}

// Its beats are not confirmed, and that is not its silence.
TEST_F(PostgresUpkeepTest, ADatabaseThatIsReadAndConfirmsNothingTellsOfNoSilence) {
  const auto stream_of = [&](Ledger& ledger, const char* key) {
    return std::uint64_t{UnpackRowId(Dispatch(ledger, Call(key)).id).stream};
  };
  PgStreamTable table({.connection = {.url = url_, .answer_within = Millis(300)},
                       .group = "shop/checkout",
                       .own = stream_of(*one_, "a"),
                       .record = {}});
  const std::uint64_t watched[] = {stream_of(*other_, "b")};
  const std::function<bool()> asked[] = {[&] { return table.Beats(watched).has_value(); },
                                         [&] { return table.List().has_value(); }};
  for (const auto& is_answered : asked) {
    const auto connection = PgConnection::Open({.url = url_});
    ASSERT_TRUE(connection && (*connection)->Execute("BEGIN; LOCK TABLE stream IN EXCLUSIVE MODE"));
    int answers = 0;
    while (answers < 10 && is_answered()) ++answers;
    EXPECT_GT(answers, 1) << "it can be read";
    EXPECT_LT(answers, 10) << "who watches takes for silence that nothing can be written";
    ASSERT_TRUE((*connection)->Execute("COMMIT"));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(is_answered()) << i;
  }
}

class RetentionTest : public PostgresRetentionTest {
 protected:
  Result<FlowState> MoveFlow(FlowPhase from, FlowPhase to, FlowCause cause) {
    return Await(one_->MoveFlow({.caller = "agent-1",
                                 .flow = "flow-1",
                                 .from = from,
                                 .to = to,
                                 .cause = cause,
                                 .reason = "seen"},
                                executor_),
                 executor_);
  }
};

TEST_F(RetentionTest, WhatHasEndedLeavesATombstoneThatLeavesToo) {
  Finish(*one_, "a");
  Record(*other_, Success(Dispatch(*one_, Call("b"))));  // by another process
  Finish(*one_, "young");
  EXPECT_EQ(Turn().rows, 0U);
  Age(kRule.retention.count() + 1);
  Finish(*one_, "c");
  Finish(*other_, "d");
  EXPECT_GE(Turn().rows, 5U);
  EXPECT_EQ(Problem(), "");
  for (const char* key : {"a", "b"}) {
    const auto repeat = TryBegin(*other_, Call(key));
    ASSERT_TRUE(repeat) << repeat.error().detail();
    EXPECT_EQ(repeat->kind, Kind::kExpired) << key;
  }
  for (const char* key : {"c", "d"}) {
    EXPECT_EQ(TryBegin(*one_, Call(key))->kind, Kind::kReplay) << key;
  }
  Age(kRule.tombstones.count() + 1);
  EXPECT_GE(Turn().tombstones, 3U);
  EXPECT_EQ(TryBegin(*other_, Call("a"))->kind, Kind::kFresh);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RetentionTest, WhatIsOpenHoldsItsRowsUntilItIsOver) {
  Event open = Dispatch(*one_, Call("open"));
  open = Record(*one_, Move(open, Phase::kUncertain));
  Finish(*one_, "behind");
  Finish(*other_, "elsewhere");
  Age(kRule.retention.count() + 1);
  Finish(*one_, "young");
  Finish(*other_, "young-too");
  EXPECT_GT(Turn().rows, 0U) << "of the other stream, and the first row of this one";
  EXPECT_EQ(Turn().rows, 0U);
  EXPECT_EQ(TryBegin(*other_, Call("open"))->kind, Kind::kUnknown);
  EXPECT_EQ(TryBegin(*other_, Call("behind"))->kind, Kind::kReplay);
  EXPECT_EQ(TryBegin(*other_, Call("elsewhere"))->kind, Kind::kExpired);
  Transition settled = Success(open);
  settled.from = Phase::kUncertain;
  settled.cause = Cause::kHuman;
  Record(*other_, std::move(settled));
  EXPECT_EQ(Turn().rows, 0U) << "it is over, and not old yet";
  Age(kRule.retention.count() + 1);
  Finish(*one_, "last");
  EXPECT_GE(Turn().rows, 4U);
  EXPECT_EQ(TryBegin(*other_, Call("open"))->kind, Kind::kExpired);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RetentionTest, WhatStaysBehindAnOpenCallIsCountedAndTold) {
  const auto kept = [&] {
    const auto found = dynamic_cast<SharedLedgerView*>(one_.get())->Kept(kRule);
    EXPECT_TRUE(found) << (found ? "" : found.error().detail());
    return found ? *found : KeptRows();
  };
  EXPECT_TRUE(kept().nobody_removes) << "nobody has had a turn";
  Turn();
  EXPECT_FALSE(kept().nobody_removes);
  const Event open = Dispatch(*one_, Call("open"));
  Record(*one_, Move(open, Phase::kUncertain));
  Finish(*one_, "behind");
  Age(2 * kRule.retention.count());
  Finish(*one_, "young");
  EXPECT_EQ(Turn().rows, 1U) << "the first one of the stream";
  const KeptRows found = kept();
  EXPECT_FALSE(found.nobody_removes);
  ASSERT_EQ(found.behind.size(), 1U);
  EXPECT_EQ(found.behind[0].row, open.id);
  EXPECT_EQ(found.behind[0].operation, open.operation);
  EXPECT_EQ(found.behind[0].rows, 4U);
  EXPECT_GE(found.behind[0].age_s, 2 * kRule.retention.count() / 1'000);
  Execute("UPDATE work SET due_at = due_at - interval '1 hour' WHERE kind = 4");
  EXPECT_TRUE(kept().nobody_removes);
}

TEST_F(RetentionTest, StepsOfAFlowThatIsNotOverStay) {
  NewOperation step = Call("step", "flow-1");
  step.event.is_step = true;
  Record(*one_, Success(Dispatch(*one_, std::move(step))));
  ASSERT_TRUE(MoveFlow(FlowPhase::kOpen, FlowPhase::kBreaking, FlowCause::kCanceled));
  Age(kRule.retention.count() + 1);
  Finish(*one_, "young");
  EXPECT_LE(Turn().rows, 1U);
  EXPECT_EQ(Turn().rows, 0U);
  const auto flow = MoveFlow(FlowPhase::kBreaking, FlowPhase::kNeedsHuman, FlowCause::kStuck);
  ASSERT_TRUE(flow) << flow.error().detail();
  EXPECT_EQ(flow->steps.size(), 1U);
  ASSERT_TRUE(MoveFlow(FlowPhase::kNeedsHuman, FlowPhase::kCommitted, FlowCause::kHuman));
  Age(kRule.retention.count() + 1);
  Finish(*one_, "younger");
  EXPECT_GE(Turn().rows, 5U);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RetentionTest, OneProcessHasTheTurn) {
  Finish(*one_, "a");
  Age(kRule.retention.count() + 1);
  Finish(*one_, "young");
  ASSERT_TRUE(keeper_.Turn({.retention = Millis(100'000'000)}, Millis(3'600'000)));
  EXPECT_EQ(Turn().rows, 0U) << "somebody has looked within the hour";
  Execute("UPDATE work SET due_at = now() WHERE kind = 4");
  auto busy = PgConnection::Open({.url = url_});
  ASSERT_TRUE(busy && (*busy)->Execute("BEGIN; SELECT 1 FROM work WHERE kind = 4 FOR UPDATE"));
  EXPECT_EQ(Turn().rows, 0U) << "another one is at it";
  ASSERT_TRUE((*busy)->Execute("COMMIT"));
  EXPECT_GT(Turn().rows, 0U);
}

// Of a probe that had come too early, say.
TEST_F(PostgresUpkeepTest, AnEffectThatOthersHadGoneOnWithoutIsCounted) {
  auto* const view = dynamic_cast<SharedLedgerView*>(one_.get());
  const Event early = Dispatch(*one_, Call("early")), again = Dispatch(*one_, Call("again"));
  const Event in_time = Dispatch(*one_, Call("in time"));
  for (const Event* const sent : {&early, &again, &in_time}) {
    Record(*other_, Move(*sent, Phase::kUncertain, Cause::kOwnerLost));
  }
  for (const Event* const sent : {&early, &again}) {
    Transition absent = Move(*sent, Phase::kProvenAbsent, Cause::kProbeAbsent);
    absent.from = Phase::kUncertain;
    Record(*other_, std::move(absent));
  }
  EXPECT_EQ(Dispatch(*other_, Call("again")).attempt, 2);
  Record(*one_, Success(in_time));
  EXPECT_EQ(view->SharedCounts().second_effects, 0U);
  EXPECT_FALSE(Await(one_->Record(Success(early), executor_), executor_));
  EXPECT_EQ(view->SharedCounts().second_effects, 1U);
  EXPECT_FALSE(Await(one_->Record(Success(again), executor_), executor_));
  EXPECT_EQ(view->SharedCounts().second_effects, 2U);
  // What it knows to have had none is no second effect.
  Transition refused = Move(again, Phase::kRejected, Cause::kAnswer);
  EXPECT_FALSE(Await(one_->Record(std::move(refused), executor_), executor_));
  EXPECT_EQ(view->SharedCounts().second_effects, 2U);
}

TEST_F(PostgresUpkeepTest, WhatNoLivingProcessHasIsCounted) {
  auto* const view = dynamic_cast<SharedLedgerView*>(one_.get());
  const auto orphans = [&] {
    (void)one_->Stats();
    return view->SharedCounts().orphaned_work;
  };
  Record(*one_, Move(Dispatch(*one_, Call("waits")), Phase::kUncertain));
  const Event runs = Dispatch(*other_, Call("runs"));
  EXPECT_EQ(orphans(), 0U);
  Execute(
      "INSERT INTO work (kind, stream, number, grp, owner) VALUES (1, 9, 1, 'shop/checkout', 9)"
      ", (3, 9, 2, 'shop/checkout', NULL), (4, 9, 3, 'shop/checkout', NULL),"
      " (1, 9, 4, 'other', 8)");
  EXPECT_EQ(orphans(), 2U) << "but for the keeper's turn, and what others have";
  // It was sending two calls, beside the one that waits, and has been silent since.
  Execute(
      "INSERT INTO stream (stream, grp, pod, version, chain, open, at, tables) VALUES"
      " (9, 'shop/checkout', 'gone', '1', '', 3, now() - interval '1 hour', 4)");
  EXPECT_EQ(orphans(), 4U);
  Execute("UPDATE stream SET at = now() WHERE stream = 9");
  EXPECT_EQ(orphans(), 1U) << "it lives";
  Execute("DELETE FROM work WHERE stream = 9; DELETE FROM stream WHERE stream = 9");
  EXPECT_EQ(orphans(), 0U);
  Record(*other_, Success(runs));
}

TEST_F(PostgresUpkeepTest, StandbysThatNoCommitAwaitsAreCounted) {
  auto* const view = dynamic_cast<SharedLedgerView*>(one_.get());
  const auto standbys = [&] {
    (void)one_->Stats();
    return view->SharedCounts().asynchronous_standbys;
  };
  EXPECT_EQ(standbys(), 0U);
  // As one that only just asks where to begin.
  PGconn* const standby = PlainConnection(url_ + " replication=true");
  ASSERT_EQ(PQstatus(standby), CONNECTION_OK) << PQerrorMessage(standby);
  EXPECT_EQ(standbys(), 1U);
  // The role of a pod sees no more of them than how many there are.
  Execute(
      "CREATE ROLE of_a_pod; SET ROLE of_a_pod; DO $$ BEGIN ASSERT"
      " (SELECT count(*) FROM pg_stat_replication) = 1; END $$; RESET ROLE; DROP ROLE of_a_pod");
  PQfinish(standby);
}

class WentBackTest : public PostgresUpkeepTest {
 protected:
  // As a restore to that point in time does; `also` at once, before anybody looks.
  void Back(const std::string& also = {}) const {
    std::string sql = also;
    for (const char* table : kTables) {
      sql += "DELETE FROM " + std::string(table) + "; INSERT INTO " + table +
             " SELECT * FROM was_" + table + "; ";
    }
    Execute(sql);
  }
  void Keep() const {
    std::string sql;
    for (const char* table : kTables) {
      sql += "CREATE TABLE was_" + std::string(table) + " AS SELECT * FROM " + table + "; ";
    }
    Execute(sql);
  }
  void ExpectHeld(Ledger& ledger, std::string_view key) {
    const auto refused = TryBegin(ledger, Call(key));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), ErrorCode::kLedgerRestored) << refused.error().detail();
    EXPECT_EQ(refused.error().delivery(), Delivery::kNotSent);
  }

 private:
  static constexpr const char* kTables[] = {"ledger", "stream", "operation", "intent",
                                            "flow",   "event",  "work"};
};

TEST_F(WentBackTest, NobodyBeginsAnythingUntilItIsAccepted) {
  const Event before = Dispatch(*one_, Call("before"));
  const Event answered = Finish(*other_, "answered");
  Keep();
  Finish(*one_, "lost");
  Back();
  const auto fenced = TryBegin(*one_, Call("x"));
  ASSERT_FALSE(fenced);
  EXPECT_EQ(fenced.error().delivery(), Delivery::kNotSent);
  EXPECT_TRUE(other_->Stats().restored);
  ExpectHeld(*one_, "x");
  ExpectHeld(*other_, "y");
  const auto late = OpenTestPostgres(url_, clock_);
  ExpectHeld(*late, "z");
  // What is known is told, and what has ended is recorded.
  const auto repeat = TryBegin(*other_, Call("answered"));
  ASSERT_TRUE(repeat);
  EXPECT_EQ(repeat->kind, Kind::kReplay);
  EXPECT_EQ(repeat->event.id, answered.id);
  Record(*one_, Success(before));
  ASSERT_TRUE(other_->AcceptRestoredBackup());
  EXPECT_FALSE(one_->Stats().restored);
  for (Ledger* const ledger : {one_.get(), other_.get(), late.get()}) {
    Dispatch(*ledger, Call("after-" + std::to_string(ledger->Stats().last_id)));
  }
  EXPECT_EQ(Problem(), "");
}

TEST_F(WentBackTest, ObserveModePassesAndNumbersAreNotGivenAgain) {
  Keep();
  const auto late = OpenTestPostgres(url_, clock_);
  const Event lost = Finish(*late, "lost");
  const std::uint32_t stream = UnpackRowId(lost.id).stream;
  Back("SELECT setval('stream_number', " + std::to_string(stream - 1) + "); ");
  EXPECT_FALSE(TryBegin(*late, Call("x")));
  NewOperation watched = Call("watched");
  watched.event.verdict = ObserveVerdict::kFresh;
  const Event event = Dispatch(*late, std::move(watched));
  // Others that notice take numbers, too.
  EXPECT_GT(UnpackRowId(event.id).stream, stream);
}

// By the list of streams that each process looks at.
TEST_F(WentBackTest, AProcessThatIsIdleNoticesToo) {
  Finish(*one_, "kept");
  Keep();
  const Event lost = Finish(*one_, "lost");
  int behind = 0;
  PgStreamTable::Parts::LastRow last{lost.id, one_->Stats().head};
  PgStreamTable table({.connection = {.url = url_},
                       .group = "shop/checkout",
                       .own = UnpackRowId(lost.id).stream,
                       .record = {},
                       .acknowledged = [&] { return last; },
                       .behind = [&] { ++behind; }});
  EXPECT_TRUE(table.List());
  EXPECT_EQ(behind, 0);
  last.hash[0] ^= 1U;
  EXPECT_TRUE(table.List());
  EXPECT_EQ(behind, 1) << "another process's row has its number";
  last.hash[0] ^= 1U;
  Back();
  EXPECT_TRUE(table.List());
  EXPECT_EQ(behind, 2);
}

// Who was told of what is gone may have died with the database's machine: of others, whoever has
// watched its beat knows.
TEST_F(WentBackTest, ABeatThatWasSeenIsProofToo) {
  const Event kept = Finish(*other_, "kept");
  const std::uint64_t stream = UnpackRowId(kept.id).stream;
  PgStreamTable table(
      {.connection = {.url = url_}, .group = "shop/checkout", .own = 0, .record = {}});
  ASSERT_TRUE(table.List());
  EXPECT_TRUE(table.TellWentBack({stream, 1}));
  EXPECT_FALSE(other_->Stats().restored) << "it has that beat";
  EXPECT_TRUE(table.TellWentBack({stream, 1'000'000}));
  EXPECT_TRUE(other_->Stats().restored);
  ExpectHeld(*other_, "x");
}

// Of two that have one number, the one whose rows are gone knows it by the hash of its last one.
class SameNumberTest : public WentBackTest, public testing::WithParamInterface<int> {
 protected:
  // The number of `late_`, which has begun a call of "lost", becomes that of `heir_`, which does
  // `calls` of its own: "heir-0" and so on. `then`: what happens before that; false: it did not.
  void BeginBoth(int calls, const std::function<bool()>& then = [] { return true; }) {
    Keep();
    // Others that notice the restore by themselves may do so at any moment, and take the number.
    int tries = 0;
    while (++tries < 50 && !HaveBegun(calls, then)) continue;
    ASSERT_LT(tries, 50);
  }
  std::optional<Event> BeginUnlessHeld(Ledger& ledger, std::string_view key) {
    auto begun = TryBegin(ledger, Call(key));
    if (!begun || !Await(begun->commit->Durable(), executor_)) return std::nullopt;
    return std::move(begun->event);
  }

  Result<Event> TimeOut(Ledger& ledger, const Event& event) {
    Transition timeout = Transition::Of(event);
    timeout.cause = Cause::kTimeout;
    return Await(ledger.Record(std::move(timeout), executor_), executor_);
  }

  std::unique_ptr<Ledger> late_, heir_;
  std::uint32_t stream_ = 0;
  Event lost_;
  std::vector<Event> heirs_;

 private:
  bool HaveBegun(int calls, const std::function<bool()>& then) {
    late_.reset();
    heir_.reset();
    heirs_.clear();
    Back();
    late_ = OpenTestPostgres(url_, clock_);
    stream_ = UnpackRowId(late_->Stats().last_id).stream;
    const auto lost = BeginUnlessHeld(*late_, "lost");
    if (!lost) return false;
    lost_ = *lost;
    if (!then()) return false;
    Back("SELECT setval('stream_number', " + std::to_string(stream_ - 1) + "); ");
    heir_ = OpenTestPostgres(url_, clock_);
    if (UnpackRowId(heir_->Stats().last_id).stream != stream_) return false;
    while (calls-- > 0) {
      auto event = BeginUnlessHeld(*heir_, "heir-" + std::to_string(calls));
      if (!event) return false;
      heirs_.push_back(std::move(*event));
    }
    return true;
  }
};

TEST_P(SameNumberTest, AProcessWhoseNumberAnotherOneHasByNowNotices) {
  BeginBoth(GetParam());
  const auto refused = TryBegin(*late_, Call("x"));
  EXPECT_FALSE(refused);
  EXPECT_TRUE(other_->Stats().restored);
  ExpectHeld(*late_, "x");
  ExpectHeld(*heir_, "y");
  ASSERT_TRUE(other_->AcceptRestoredBackup());
  Dispatch(*late_, Call("after"));
  EXPECT_NE(UnpackRowId(late_->Stats().last_id).stream, stream_);
}

TEST_P(SameNumberTest, AnAnswerIsToldOfItsOwnCallAlone) {
  BeginBoth(1 + GetParam());
  ASSERT_EQ(heirs_.front().operation, lost_.operation);
  Transition answered = Success(lost_, "of another call");
  answered.dispatching = &lost_;
  EXPECT_FALSE(Await(late_->Record(std::move(answered), executor_), executor_));
  const auto read = Await(other_->Read(heirs_.front().operation, executor_), executor_);
  ASSERT_TRUE(read);
  EXPECT_FALSE(IsExecuted(read->phase)) << read->answer.body;
}

TEST_P(SameNumberTest, AWordOfAProbeOrAHumanIsTakenOfItsOwnCallAlone) {
  Event unknown;
  BeginBoth(1, [&] {
    const auto told = TimeOut(*late_, lost_);
    if (told) unknown = *told;
    return told.has_value();
  });
  const auto told = TimeOut(*heir_, heirs_.front());
  ASSERT_TRUE(told) << told.error().detail();
  const Event& heirs = *told;
  ASSERT_EQ(heirs.operation, unknown.operation);
  ASSERT_EQ(heirs.id, unknown.id);
  for (Ledger* const ledger : {late_.get(), heir_.get(), other_.get()}) {
    for (const Cause cause : {Cause::kProbeAbsent, Cause::kHuman}) {
      Transition absent = Transition::Of(unknown);
      absent.to = Phase::kProvenAbsent;
      absent.cause = cause;
      EXPECT_FALSE(Await(ledger->Record(std::move(absent), executor_), executor_));
    }
  }
  const auto read = Await(other_->Read(heirs.operation, executor_), executor_);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->phase, Phase::kUncertain);
  Transition own = Transition::Of(heirs);
  own.to = Phase::kProvenAbsent;
  own.cause = Cause::kProbeAbsent;
  EXPECT_EQ(Record(*heir_, std::move(own)).phase, Phase::kProvenAbsent);
}

INSTANTIATE_TEST_SUITE_P(Rows, SameNumberTest, testing::Values(0, 1, 2));

}  // namespace
}  // namespace recourse::postgres_upkeep_test
