// How long an unknown outcome may be settled by sending it again under its key.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/operator_action.h"
#include "filters/ledger/postgres/connection.h"
#include "filters/ledger/queries/audit.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::key_lives_test {
namespace {

using Kind = Begun::Kind;

constexpr Millis kLife{3'600'000};

class KeyLivesTest : public testing::TestWithParam<Store> {
 protected:
  NewOperation Keyed() const { return KeyedCall("k", lives_); }
  void Open() {
    ledger_.reset();
    ledger_ = store_.Open(clock_);
  }
  Begun Begin() {
    auto begun = Await(ledger_->Begin(Keyed(), executor_), executor_);
    EXPECT_TRUE(begun);
    if (begun && begun->commit) EXPECT_TRUE(Await(begun->commit->Durable(), executor_));
    return begun ? std::move(*begun) : Begun();
  }
  void LoseTheAnswer() {
    const Begun begun = Begin();
    ASSERT_EQ(begun.kind, Kind::kFresh);
    Leave(begun.event);
  }
  void Leave(const Event& event) {
    ASSERT_TRUE(Await(ledger_->Record(Move(event, Phase::kUncertain, Cause::kTimeout), executor_),
                      executor_));
  }
  void ExpectOver() {
    const Begun begun = Begin();
    EXPECT_EQ(begun.kind, Kind::kUnknown);
    EXPECT_TRUE(begun.is_key_over);
  }
  void ExpectSentAgain() {
    const Begun begun = Begin();
    ASSERT_EQ(begun.kind, Kind::kFresh);
    Leave(begun.event);
  }

  // Of a shared ledger that of the database, which is looked at when a process begins.
  void SetClock(Millis by) {
    clock_.JumpWall(by);
    if (store_.is_shared()) Open();
  }
  void RestoreAndAccept() {
    if (store_.is_shared()) {
      const auto connection = PgConnection::Open({.url = store_.url()});
      ASSERT_TRUE(connection && (*connection)
                                    ->Execute("UPDATE ledger SET restored_at = now();"
                                              " UPDATE stream SET held = true"));
      ExpectOver();
      ASSERT_TRUE(ledger_->AcceptRestoredBackup());
      return;
    }
    auto& auditor = dynamic_cast<LedgerAuditor&>(*ledger_);
    ASSERT_TRUE(auditor.RecordOrder({.what = std::string(kAcceptOrder),
                                     .who = "ann",
                                     .reason = "seen",
                                     .policy_version = {},
                                     .policy = {}}));
  }

  StoredLedger store_{GetParam()};
  ManualClock clock_;
  Millis lives_ = kLife;
  PumpedExecutor executor_;
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(KeyLivesTest, UnderOneThatDoesNotLiveNothingIsSentAgainAtTheSameInstant) {
  lives_ = Millis(0);
  LoseTheAnswer();
  ExpectOver();
}

TEST_P(KeyLivesTest, ItsLifeIsCountedFromTheFirstAttempt) {
  LoseTheAnswer();
  clock_.Advance(kLife / 2);
  ExpectSentAgain();
  clock_.Advance(kLife / 2);
  ExpectSentAgain();
  clock_.Advance(Millis(1));
  ExpectOver();
  Open();
  ExpectOver();
}

TEST_P(KeyLivesTest, TimeWithoutUsCounts) {
  LoseTheAnswer();
  SetClock(kLife + Millis(1));
  ExpectOver();
  Open();
  ExpectOver();
}

TEST_P(KeyLivesTest, AClockThatWentBackEndsIt) {
  if (store_.is_shared()) GTEST_SKIP() << "it is the database's, which no test here can set back";
  LoseTheAnswer();
  clock_.Advance(Millis(60'000));
  SetClock(Millis(-30'000));
  ExpectOver();
}

TEST_P(KeyLivesTest, AClockThatWentBackBetweenTwoStartsEndsIt) {
  LoseTheAnswer();
  clock_.Advance(Millis(60'000));
  ExpectSentAgain();
  clock_.JumpWall(Millis(-30'000));
  Open();
  ExpectOver();
}

TEST_P(KeyLivesTest, ARestoredLedgerEndsIt) {
  LoseTheAnswer();
  RestoreAndAccept();
  ExpectOver();
  Open();
  ExpectOver();
  ledger_.reset();
  store_.DropIndex();
  Open();
  ExpectOver();
}

INSTANTIATE_TEST_SUITE_P(Stores, KeyLivesTest, testing::Values(Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::key_lives_test
