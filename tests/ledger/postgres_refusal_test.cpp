// A database that answers and refuses to write: it is read-only, full, or has taken a right.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "filters/ledger/shared_view.h"
#include "tests/ledger/postgres_relay.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_refusal_test {
namespace {

using Kind = Begun::Kind;

class RefusalTest : public PostgresUpkeepTest {
 protected:
  // From then on, and what is written of an operation that `whose` is true of.
  void Refuse(const std::string& whose = "true", const std::string& what = "53100",
              const std::string& table = "operation") {
    Execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF " + whose +
            " THEN RAISE EXCEPTION 'could not extend file: no space left' USING ERRCODE = '" +
            what +
            "'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON " +
            table + " FOR EACH ROW EXECUTE FUNCTION refuse()");
  }
  // Another process has ended the stream that sent it.
  void Fence(const Event& sent) {
    Execute("UPDATE stream SET state = 2 WHERE stream = " +
            std::to_string(UnpackRowId(sent.operation).stream));
  }
  std::uint64_t Fenced() { return dynamic_cast<SharedLedgerView&>(*one_).SharedCounts().fenced; }
  void Allow() { Execute("DROP FUNCTION refuse CASCADE"); }
  // Lets the lane try again, each time a step later: much shorter than others wait for a sign of
  // its life, which the refused batches are not.
  bool IsSoon(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      clock_.Advance(kStep);
      (void)TryBegin(*one_, Call("look" + std::to_string(++looks_)));
    }
    return true;
  }
  static std::string KeyOf(const Event& event) {
    return "NEW.op_stream = " + std::to_string(UnpackRowId(event.operation).stream) +
           " AND NEW.op_number = " + std::to_string(UnpackRowId(event.operation).number);
  }

  bool IsUp() { return dynamic_cast<SharedLedgerView&>(*one_).SharedCounts().is_up; }
  std::int64_t BeatOf(const Event& event) const {
    return Ask("SELECT beat FROM stream WHERE stream = " +
               std::to_string(UnpackRowId(event.operation).stream));
  }
  void ExpectRefused(const Result<Begun>& begun) {
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code(), ErrorCode::kLedgerUnavailable);
    EXPECT_EQ(begun.error().delivery(), Delivery::kNotSent);
  }
  static int CountIn(std::string_view text, std::string_view part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos; ++count) {
      at = text.find(part, at + part.size());
    }
    return count;
  }

  static constexpr Millis kStep{200};
  int looks_ = 0;
};

TEST_F(RefusalTest, AnOutcomeIsKeptUntilItIsWritten) {
  const Event sent = Dispatch(*one_, Call("sent"));
  Refuse();
  Started<Result<Event>> outcome(one_->Record(Success(sent, "answer"), executor_));
  for (int i = 0; i < 40; ++i) {
    clock_.Advance(kStep);
    const auto begun = TryBegin(*one_, Call("new"));
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code(), ErrorCode::kLedgerUnavailable);
    EXPECT_EQ(begun.error().delivery(), Delivery::kNotSent);
    EXPECT_TRUE(begun.error().detail().contains("refuses what is asked of it"))
        << begun.error().detail();
  }
  // Whoever waits is told so meanwhile.
  ASSERT_TRUE(IsSoon([&] { return outcome.is_done(); }));
  const auto told = outcome.Get(executor_);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().delivery(), Delivery::kUncertain);
  auto* const view = dynamic_cast<SharedLedgerView*>(one_.get());
  EXPECT_FALSE(view->SharedCounts().is_up);
  EXPECT_EQ(TryBegin(*other_, Call("sent"))->kind, Kind::kRunning);
  Allow();
  EXPECT_TRUE(IsSoon([&] { return TryBegin(*other_, Call("sent"))->kind == Kind::kReplay; }));
  EXPECT_EQ(TryBegin(*one_, Call("new"))->kind, Kind::kFresh);
  EXPECT_TRUE(view->SharedCounts().is_up);
  EXPECT_EQ(Problem(), "");
}

// What it is decided on cannot be read.
TEST_F(RefusalTest, AnOutcomeIsKeptWhileNothingCanBeReadForIt) {
  NewOperation call = Call("sent");
  call.event.resource = Sha256("what it writes to");
  call.event.stands.kind = WriteKind::kPost;
  call.event.stands.ended_by = {MarkOn(MarkOf(Sha256("another")), WriteKind::kDelete)};
  const Event sent = Dispatch(*one_, call);
  Execute("ALTER TABLE intent RENAME TO hidden");
  Started<Result<Event>> outcome(one_->Record(Success(sent, "answer"), executor_));
  for (int i = 0; i < 60; ++i) {
    clock_.Advance(kStep);
    (void)TryBegin(*one_, Call("new"));
  }
  ASSERT_TRUE(IsSoon([&] { return outcome.is_done(); }));
  const auto told = outcome.Get(executor_);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().delivery(), Delivery::kUncertain);
  Execute("ALTER TABLE hidden RENAME TO intent");
  EXPECT_TRUE(IsSoon([&] {
    const auto repeat = TryBegin(*other_, call);
    return repeat && repeat->kind == Kind::kReplay;
  }));
  EXPECT_EQ(Problem(), "");
}

// Nor is one that is refused for its own sake a reason for others to wait.
TEST_F(RefusalTest, WhatIsRefusedGoesAlone) {
  const Event poison = Dispatch(*one_, Call("poison"));
  const Event sound = Dispatch(*one_, Call("sound"));
  Refuse(KeyOf(poison));
  Started<Result<Event>> refused(one_->Record(Success(poison, "answer"), executor_));
  Started<Result<Event>> written(one_->Record(Success(sound, "answer"), executor_));
  EXPECT_TRUE(IsSoon([&] { return written.is_done(); }));
  EXPECT_TRUE(written.Get(executor_));
  EXPECT_TRUE(TryBegin(*one_, Call("new"))) << "while that is kept";
  Allow();
  EXPECT_TRUE(IsSoon([&] { return TryBegin(*other_, Call("poison"))->kind == Kind::kReplay; }));
  const auto told = refused.Get(executor_);
  EXPECT_TRUE(told || told.error().delivery() == Delivery::kUncertain);
  EXPECT_EQ(Problem(), "");
}

// A batch without rows is no sign that some would be written.
TEST_F(RefusalTest, ThatCallsAreRefusedStandsUntilOneBegins) {
  const Event open = Dispatch(*one_, Call("open"));
  Refuse("TG_OP = 'INSERT'", "42501");
  ExpectRefused(TryBegin(*one_, Call("new")));
  EXPECT_TRUE(HappensSoon([&, before = BeatOf(open)] { return BeatOf(open) > before + 1; }));
  EXPECT_FALSE(IsUp());
  EXPECT_TRUE(one_->Stats().refused.contains("no space left")) << one_->Stats().refused;
  Record(*one_, Success(open));
  EXPECT_FALSE(IsUp()) << "an outcome is none, either";
  Allow();
  Dispatch(*one_, Call("new"));
  EXPECT_TRUE(IsUp());
  EXPECT_EQ(one_->Stats().refused, "");
  EXPECT_EQ(Problem(), "");
}

TEST_F(RefusalTest, WhatNoRowOfACallMayHoldIsNoReasonToSayThatAllAreRefused) {
  Refuse("true", "22021");
  ExpectRefused(TryBegin(*one_, Call("new")));
  EXPECT_TRUE(IsUp());
  EXPECT_EQ(one_->Stats().refused, "");
}

TEST_F(RefusalTest, NothingIsSentWhoseOutcomeCouldNotBeWritten) {
  const Event sent = Dispatch(*one_, Call("sent"));
  Refuse("TG_OP = 'UPDATE'", "42501");
  Started<Result<Event>> outcome(one_->Record(Success(sent, "answer"), executor_));
  ASSERT_TRUE(HappensSoon([&] { return !IsUp(); }));
  for (int i = 0; i < 40; ++i) {
    clock_.Advance(kStep);
    ExpectRefused(TryBegin(*one_, Call("new" + std::to_string(i))));
  }
  EXPECT_NE(one_->Stats().refused, "");
  EXPECT_EQ(Ask("SELECT count(*) FROM operation"), 2) << "one of them was tried";
  Allow();
  EXPECT_TRUE(IsSoon([&] { return TryBegin(*other_, Call("sent"))->kind == Kind::kReplay; }));
  EXPECT_TRUE(IsSoon([&] { return TryBegin(*one_, Call("later")).has_value(); }));
  EXPECT_TRUE(IsSoon([&] { return TryBegin(*one_, Call("new0"))->kind == Kind::kFresh; }));
  EXPECT_TRUE(IsUp());
  (void)outcome.Get(executor_);
  EXPECT_EQ(Problem(), "");
}

// Where no other outcome is under way, what is begun and taken back shows that.
TEST_F(RefusalTest, OneThatIsRefusedForItsOwnSakeClosesNoDoor) {
  const Event poison = Dispatch(*one_, Call("poison"));
  Refuse(KeyOf(poison), "42501");
  Started<Result<Event>> refused(one_->Record(Success(poison, "answer"), executor_));
  ASSERT_TRUE(IsSoon([&] { return refused.is_done(); }));
  ASSERT_TRUE(IsSoon([&] { return TryBegin(*one_, Call("new")).has_value(); }));
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(kStep);
    EXPECT_TRUE(TryBegin(*one_, Call("new" + std::to_string(i)))) << i;
  }
  EXPECT_TRUE(IsUp());
  Allow();
  EXPECT_TRUE(IsSoon([&] { return TryBegin(*other_, Call("poison"))->kind == Kind::kReplay; }));
  (void)refused.Get(executor_);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RefusalTest, ThatNothingCanBeNotedIsToldOnceAndNothingIsSentMeanwhile) {
  const Event answered = Finish(*one_, "answered");
  Refuse("TG_OP = 'UPDATE'", "42501");
  testing::internal::CaptureStderr();
  one_->MarkAnswered({answered.operation, answered.attempt});
  clock_.Advance(Millis(1'001));
  EXPECT_TRUE(HappensSoon([&] { return !IsUp(); }));
  Started<Result<Begun>> begin(one_->Begin(Call("new"), executor_));
  clock_.Advance(Millis(2'001));
  ExpectRefused(begin.Get(executor_));
  EXPECT_NE(one_->Stats().refused, "");
  Allow();
  while (!TryBegin(*one_, Call("new"))) std::this_thread::yield();
  EXPECT_TRUE(IsUp());
  EXPECT_EQ(CountIn(testing::internal::GetCapturedStderr(), "whose clients were answered"), 2)
      << "its beginning and its end";
  EXPECT_EQ(Problem(), "");
}

// It is kept, though the process has another stream since, which did not send the call.
TEST_F(RefusalTest, AnOutcomeThatIsWrittenBehindAFenceEndsItsRefusal) {
  const Event sent = Dispatch(*one_, Call("sent"));
  Refuse(KeyOf(sent));
  Started<Result<Event>> outcome(one_->Record(Success(sent, "answer"), executor_));
  ASSERT_TRUE(HappensSoon([&] { return !IsUp(); }));
  Fence(sent);
  ASSERT_TRUE(HappensSoon([&] {
    clock_.Advance(kStep);
    return Fenced() == 1;
  }));
  EXPECT_FALSE(IsUp());
  Allow();
  EXPECT_TRUE(HappensSoon([&] {
    clock_.Advance(kStep);
    return IsUp();
  }));
  EXPECT_EQ(TryBegin(*other_, Call("sent"))->kind, Kind::kReplay);
  (void)outcome.Get(executor_);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RefusalTest, WithoutAStreamItIsNotUpAndFencedOnce) {
  const Event sent = Finish(*one_, "sent");
  Refuse("TG_OP = 'INSERT'", "53100", "stream");
  Fence(sent);
  for (int i = 0; i < 20; ++i) {
    Started<Result<Begun>> begin(one_->Begin(Call("new" + std::to_string(i)), executor_));
    EXPECT_TRUE(HappensSoon([&] {
      clock_.Advance(kStep);
      return begin.is_done() || executor_.has_jobs();
    }));
    ExpectRefused(begin.Get(executor_));
    EXPECT_FALSE(IsUp()) << i;
  }
  EXPECT_EQ(Fenced(), 1U);
  Allow();
  EXPECT_TRUE(IsSoon([&] { return IsUp(); }));
  Dispatch(*one_, Call("later"));
  EXPECT_EQ(Fenced(), 1U);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RefusalTest, NobodyWaitsForAListThatIsRefused) {
  Execute("ALTER TABLE work RENAME TO gone");
  const auto claims = Await(one_->Claims(0, 10, executor_), executor_);
  ASSERT_FALSE(claims);
  EXPECT_EQ(claims.error().code(), ErrorCode::kLedgerUnavailable);
  Execute("ALTER TABLE gone RENAME TO work");
  EXPECT_TRUE(Await(one_->Claims(0, 10, executor_), executor_));
}

// Who asks for it can ask again.
TEST_F(RefusalTest, AWordOfAHumanIsRefused) {
  Event open = Dispatch(*one_, Call("open"));
  open = Record(*one_, Move(open, Phase::kUncertain));
  Refuse();
  Transition settled = Success(open);
  settled.from = Phase::kUncertain;
  settled.cause = Cause::kHuman;
  const auto said = Await(one_->Record(settled, executor_), executor_);
  ASSERT_FALSE(said);
  EXPECT_TRUE(said.error().detail().contains("refuses what is asked of it"))
      << said.error().detail();
  Allow();
  EXPECT_TRUE(Await(one_->Record(settled, executor_), executor_));
  EXPECT_EQ(Problem(), "");
}

}  // namespace
}  // namespace recourse::postgres_refusal_test
