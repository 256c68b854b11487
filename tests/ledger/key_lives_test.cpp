// How long an unknown outcome may be settled by sending it again under its key.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"
#include "filters/ledger/model/operator_action.h"
#include "filters/ledger/queries/audit.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::key_lives_test {
namespace {

using Kind = Begun::Kind;

constexpr Millis kLife{3'600'000};

class KeyLivesTest : public testing::Test {
 protected:
  KeyLivesTest() { Open(); }

  NewOperation Keyed() const {
    NewOperation call = Call("k");
    call.event.dedupe_domain = 7;
    call.event.key_field = "";
    call.may_resend = true;
    call.key_lives = lives_;
    return call;
  }
  void Open() {
    ledger_.reset();
    auto opened = OpenLmdbLedger(
        {.directory = directory_.data(), .map_bytes = 1U << 30, .unsafe_fs = true}, clock_);
    ASSERT_TRUE(opened) << opened.error();
    ledger_ = std::move(*opened);
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

  TempDirectory directory_{FastParent()};
  ManualClock clock_;
  Millis lives_ = kLife;
  PumpedExecutor executor_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(KeyLivesTest, UnderOneThatDoesNotLiveNothingIsSentAgainAtTheSameInstant) {
  lives_ = Millis(0);
  LoseTheAnswer();
  ExpectOver();
}

TEST_F(KeyLivesTest, ItsLifeIsCountedFromTheFirstAttempt) {
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

TEST_F(KeyLivesTest, TimeWithoutUsCounts) {
  LoseTheAnswer();
  clock_.JumpWall(kLife + Millis(1));
  ExpectOver();
  Open();
  ExpectOver();
}

TEST_F(KeyLivesTest, AClockThatWentBackEndsIt) {
  LoseTheAnswer();
  clock_.Advance(Millis(60'000));
  clock_.JumpWall(Millis(-30'000));
  ExpectOver();
}

TEST_F(KeyLivesTest, AClockThatWentBackBetweenTwoStartsEndsIt) {
  LoseTheAnswer();
  clock_.Advance(Millis(60'000));
  ExpectSentAgain();
  clock_.JumpWall(Millis(-30'000));
  Open();
  ExpectOver();
}

TEST_F(KeyLivesTest, ARestoredLedgerEndsIt) {
  LoseTheAnswer();
  auto& auditor = dynamic_cast<LedgerAuditor&>(*ledger_);
  ASSERT_TRUE(auditor.RecordOrder({.what = std::string(kAcceptOrder),
                                   .who = "ann",
                                   .reason = "seen",
                                   .policy_version = {},
                                   .policy = {}}));
  ExpectOver();
  Open();
  ExpectOver();
  ledger_.reset();
  std::filesystem::remove_all(directory_.data() + "/index");
  Open();
  ExpectOver();
}

}  // namespace
}  // namespace recourse::key_lives_test
