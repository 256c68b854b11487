// An attempt whose process was taken for dead, and what that process still knows of it.
#include <gtest/gtest.h>

#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::owner_lost_test {
namespace {

class OwnerLostTest : public testing::TestWithParam<Store> {
 protected:
  Event Dispatch() {
    auto begun = Await(ledger_->Begin(Call("k"), executor_), executor_);
    EXPECT_TRUE(begun && begun->commit && Await(begun->commit->Durable(), executor_));
    return begun->event;
  }
  Result<Event> Record(Transition transition) {
    return Await(ledger_->Record(std::move(transition), executor_), executor_);
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(OwnerLostTest, ItsOutcomeIsUnknownUntilWhoSentItTellsIt) {
  const Event sent = Dispatch();
  const auto lost = Record(Move(sent, Phase::kUncertain, Cause::kOwnerLost));
  ASSERT_TRUE(lost);
  EXPECT_EQ(NameOf(lost->cause), "owner_lost");
  const auto told = Record(Success(sent, "{}"));
  ASSERT_TRUE(told) << told.error().detail();
  EXPECT_EQ(told->phase, Phase::kSucceeded);
  const auto repeat = Await(ledger_->Begin(Call("k"), executor_), executor_);
  ASSERT_TRUE(repeat);
  EXPECT_EQ(repeat->kind, Begun::Kind::kReplay);
}

TEST_P(OwnerLostTest, ItIsNeverCalledNotSent) {
  const Event sent = Dispatch();
  ASSERT_TRUE(Record(Move(sent, Phase::kUncertain, Cause::kOwnerLost)));
  EXPECT_FALSE(Record(Move(sent, Phase::kNotSent, Cause::kCanceled)));
  EXPECT_FALSE(Record(Move(sent, Phase::kUncertain, Cause::kTimeout)));
}

TEST_P(OwnerLostTest, AnotherAttemptIsNotWhatTheOldOneTellsOf) {
  const Event sent = Dispatch();
  ASSERT_TRUE(Record(Move(sent, Phase::kUncertain, Cause::kOwnerLost)));
  Transition absent = Move(sent, Phase::kProvenAbsent, Cause::kProbeAbsent);
  absent.from = Phase::kUncertain;
  ASSERT_TRUE(Record(std::move(absent)));
  EXPECT_FALSE(Record(Success(sent, "{}"))) << "nothing is running that it could be";
  const Event second = Dispatch();
  EXPECT_EQ(second.attempt, 2);
  EXPECT_FALSE(Record(Success(sent, "{}")));
  EXPECT_TRUE(Record(Success(second, "{}")));
}

// Of what is unknown for another reason nobody tells in the name of the dispatch.
TEST_P(OwnerLostTest, OnlyWhoseProcessWasLostMayBeTestifiedOf) {
  const Event sent = Dispatch();
  ASSERT_TRUE(Record(Move(sent, Phase::kUncertain, Cause::kTimeout)));
  EXPECT_FALSE(Record(Success(sent, "{}")));
}

INSTANTIATE_TEST_SUITE_P(Stores, OwnerLostTest, testing::Values(Store::kMemory, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::owner_lost_test
