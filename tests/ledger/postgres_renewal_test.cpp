// A process leaves its stream for another one where something open holds old rows of it, which
// retention cannot remove.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "proxy/base/limits.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_renewal_test {
namespace {

using Kind = Begun::Kind;

// That process looks often.
class RenewalTest : public PostgresRetentionTest {
 protected:
  static constexpr LedgerRule kOften{.retention = kRule.retention, .tombstones = Millis(3'200)};

  // Makes calls meanwhile.
  bool IsSoon(const std::function<bool()>& condition, Millis at_most = std::chrono::minutes(1)) {
    const MonoTime end = clock_.Now() + at_most;
    while (!condition()) {
      if (clock_.Now() > end) return false;
      Finish(*one_, "look" + std::to_string(++looks_));
    }
    return true;
  }
  static std::uint64_t StreamOf(Ledger& ledger) {
    return UnpackRowId(ledger.Stats().first_id).stream;
  }
  Event Unknown(std::string_view key) {
    return Record(*one_, Move(Dispatch(*one_, Call(key)), Phase::kUncertain));
  }
  std::uint64_t StreamAfter(std::uint64_t stream) {
    EXPECT_TRUE(IsSoon([&] { return StreamOf(*one_) != stream; }));
    return StreamOf(*one_);
  }
  // It has looked several times, and found no reason.
  bool Stays(std::uint64_t stream) {
    return !IsSoon([&] { return StreamOf(*one_) != stream; }, Millis(300));
  }
  std::int64_t Ask(const PgStatement& statement, std::uint64_t stream) {
    const auto found = reader_.Ask(statement, PgArguments().Int(AsInt(stream)));
    EXPECT_TRUE(found && found->front().size() == 1);
    return found ? found->front().Int(0, 0) : -1;
  }

  int looks_ = 0;
};

constexpr PgStatement kRowsOf{"test_rows", "SELECT count(*) FROM event WHERE stream = $1::bigint"};
constexpr PgStatement kWorkOf{"test_work", "SELECT count(*) FROM work WHERE owner = $1::bigint"};

TEST_F(RenewalTest, WhatIsOpenHoldsNoRowsOfTheNextStream) {
  const std::uint64_t first = StreamOf(*one_);
  const Event open = Unknown("open");
  Finish(*one_, "held");
  Age(2 * kRule.retention.count());
  Turn();
  one_->SetRule(kOften);
  const std::uint64_t second = StreamAfter(first);
  const std::int64_t held = Ask(kRowsOf, first);
  EXPECT_EQ(Problem(), "");
  one_->SetRule(kRule);  // so that a turn comes before it looks, however slow
  for (int i = 0; i < 10; ++i) Finish(*one_, "more" + std::to_string(i));
  EXPECT_GT(Ask(kRowsOf, second), 20);
  Age(kRule.retention.count() + 1);
  Finish(*one_, "young");
  while (Turn().rows > 0) {
  }
  EXPECT_LT(Ask(kRowsOf, second), 20);
  EXPECT_EQ(Ask(kRowsOf, first), held);
  EXPECT_EQ(StreamOf(*one_), second) << "nothing holds rows of this one";
  // It is what it was, and ends by the word of a human.
  EXPECT_EQ(TryBegin(*one_, Call("open"))->kind, Kind::kUnknown);
  Transition settled = Success(open);
  settled.from = Phase::kUncertain;
  settled.cause = Cause::kHuman;
  Record(*one_, std::move(settled));
  EXPECT_EQ(TryBegin(*other_, Call("open"))->kind, Kind::kReplay);
  Age(kRule.retention.count() + 1);
  Finish(*one_, "last");
  while (Turn().rows > 0) {
  }
  EXPECT_EQ(Ask(kRowsOf, first), 1) << "its end";
  EXPECT_EQ(Problem(), "");
}

// It would be taken for one that a dead process has left.
TEST_F(RenewalTest, NothingIsLeftWhileACallIsOnItsWay) {
  const std::uint64_t first = StreamOf(*one_);
  Unknown("open");
  Age(2 * kRule.retention.count());
  Turn();
  const Event sent = Dispatch(*one_, Call("sent"));
  one_->SetRule(kOften);
  EXPECT_TRUE(Stays(first));
  EXPECT_EQ(TryBegin(*other_, Call("sent"))->kind, Kind::kRunning);
  EXPECT_EQ(Record(*one_, Success(sent, "answer")).phase, Phase::kSucceeded);
  StreamAfter(first);
  EXPECT_EQ(TryBegin(*other_, Call("sent"))->kind, Kind::kReplay);
  EXPECT_EQ(Problem(), "");
}

// What comes meanwhile waits for a moment.
TEST_F(RenewalTest, WhoeverIsNeverQuietLeavesItToo) {
  const std::uint64_t first = StreamOf(*one_);
  Unknown("open");
  Age(2 * kRule.retention.count());
  Turn();
  Event sent = Dispatch(*one_, Call("first"));
  // It looks every two seconds.
  one_->SetRule(
      {.retention = kRule.retention, .tombstones = Millis(2'000) * limits::kAgeMarksPerRetention});
  const MonoTime end = clock_.Now() + std::chrono::minutes(1);
  int calls = 0;
  while (StreamOf(*one_) == first && clock_.Now() < end) {
    Started<Result<Begun>> next(one_->Begin(Call("call" + std::to_string(++calls)), executor_));
    const MonoTime late = clock_.Now() + Millis(10);
    while (!executor_.has_jobs() && clock_.Now() < late) std::this_thread::yield();
    EXPECT_EQ(Record(*one_, Success(sent, "answer")).phase, Phase::kSucceeded);
    auto begun = next.Get(executor_);
    ASSERT_TRUE(begun && begun->commit && Await(begun->commit->Durable(), executor_));
    sent = std::move(begun->event);
  }
  EXPECT_NE(StreamOf(*one_), first) << calls << " calls";
  EXPECT_EQ(Record(*one_, Success(sent, "answer")).phase, Phase::kSucceeded);
  EXPECT_EQ(TryBegin(*other_, Call("first"))->kind, Kind::kReplay);
  EXPECT_EQ(Problem(), "");
}

TEST_F(RenewalTest, AStreamThatHoldsNothingOldStays) {
  const std::uint64_t first = StreamOf(*one_);
  Finish(*one_, "ended");
  Age(2 * kRule.retention.count());
  Finish(*one_, "young");
  while (Turn().rows > 0) {
  }
  Unknown("open");
  Age(kRule.retention.count() / 2);
  one_->SetRule(kOften);
  EXPECT_TRUE(Stays(first));
}

// As what a process that ends in order hands over.
TEST_F(RenewalTest, WhatWaitsHasAnOwnerThatLives) {
  const std::uint64_t first = StreamOf(*one_);
  Unknown("open");
  Age(2 * kRule.retention.count());
  Turn();
  ASSERT_EQ(Ask(kWorkOf, first), 1);
  one_->SetRule(kOften);
  const std::uint64_t second = StreamAfter(first);
  EXPECT_TRUE(IsSoon([&] { return Ask(kWorkOf, second) + Ask(kWorkOf, StreamOf(*other_)) == 1; }));
  EXPECT_EQ(Ask(kWorkOf, first), 0);
  EXPECT_EQ(dynamic_cast<SharedLedgerView*>(one_.get())->SharedCounts().fenced, 0U);
  EXPECT_EQ(Problem(), "");
}

}  // namespace
}  // namespace recourse::postgres_renewal_test
