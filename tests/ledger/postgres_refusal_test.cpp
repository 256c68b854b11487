// A database that answers and refuses to write: it is read-only, full, or has taken a right.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "filters/ledger/shared_view.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_refusal_test {
namespace {

using Kind = Begun::Kind;

class RefusalTest : public PostgresUpkeepTest {
 protected:
  // From then on, and what is written of an operation that `whose` is true of.
  void Refuse(const std::string& whose = "true", const std::string& what = "53100") {
    Execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF " + whose +
            " THEN RAISE EXCEPTION 'could not extend file: no space left' USING ERRCODE = '" +
            what +
            "'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON operation FOR EACH ROW"
            " EXECUTE FUNCTION refuse()");
  }
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
