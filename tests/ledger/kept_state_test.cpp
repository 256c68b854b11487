// The state that a write changes: asked for before it is remembered, and kept until it is undone.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "filters/ledger/ledger.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::kept_state_test {
namespace {

using Kind = Begun::Kind;

StateKept State(const std::string& before) {
  return {{"GET", "/t/7", {}, ""}, {.version = "1", .places = {{"/t", before}}}, {}};
}

class KeptStateTest : public testing::TestWithParam<Store> {
 protected:
  static NewOperation Wanting() {
    NewOperation call = Call("k");
    call.wants_before = true;
    call.may_resend = true;
    return call;
  }
  static NewOperation Having(const std::string& before) {
    NewOperation call = Wanting();
    call.wants_before = false;
    call.event.state = State(before);
    return call;
  }
  Begun Begin(NewOperation call) {
    return *Await(ledger_->Begin(std::move(call), executor_), executor_);
  }
  Event Record(Transition transition) {
    return *Await(ledger_->Record(std::move(transition), executor_), executor_);
  }
  std::string BeforeIn(std::uint64_t row) {
    const auto event = *ledger_->Find(row);
    return event->state ? event->state->before.places.front().second : "none";
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam()};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(KeptStateTest, NothingIsRememberedBeforeItIsRead) {
  const std::uint64_t last = ledger_->Stats().last_id;
  EXPECT_EQ(Begin(Wanting()).kind, Kind::kNeedsBefore);
  EXPECT_EQ(ledger_->Stats().last_id, last);
  const Begun begun = Begin(Having("1"));
  EXPECT_EQ(begun.kind, Kind::kFresh);
  EXPECT_EQ(BeforeIn(begun.event.id), "1");
  EXPECT_EQ(Begin(Wanting()).kind, Kind::kRunning);
}

TEST_P(KeptStateTest, ASuccessKeepsItWithWhatItLeft) {
  const Begun begun = Begin(Having("1"));
  Transition success = Success(begun.event);
  success.ours = Snapshot{.version = "2", .places = {{"/t", "9"}}};
  const Event done = Record(std::move(success));
  EXPECT_EQ(BeforeIn(done.id), "1");
  EXPECT_EQ((*ledger_->Find(done.id))->state->ours.places.front().second, "9");
  EXPECT_EQ(Begin(Wanting()).kind, Kind::kReplay);
}

TEST_P(KeptStateTest, AnAttemptOverAnUnknownOneKeepsWhatWasThereBeforeThat) {
  const Begun begun = Begin(Having("1"));
  const Event unknown = Record(Move(begun.event, Phase::kUncertain, Cause::kTimeout));
  EXPECT_EQ(BeforeIn(unknown.id), "1");
  for (NewOperation again : {Wanting(), Having("2")}) {
    const Begun resent = Begin(std::move(again));
    ASSERT_EQ(resent.kind, Kind::kFresh);
    EXPECT_EQ(resent.event.cause, Cause::kResend);
    EXPECT_EQ(BeforeIn(resent.event.id), "1");
    (void)Record(Move(resent.event, Phase::kUncertain, Cause::kTimeout));
  }
}

TEST_P(KeptStateTest, AnAttemptThatDidNothingIsForgottenAndItsNextOneReadsAnew) {
  const Begun begun = Begin(Having("1"));
  const Event unsent = Record(Move(begun.event, Phase::kNotSent, Cause::kConnectFailed));
  EXPECT_EQ(BeforeIn(unsent.id), "none");
  EXPECT_EQ(Begin(Wanting()).kind, Kind::kNeedsBefore);
  EXPECT_EQ(BeforeIn(Begin(Having("2")).event.id), "2");
}

INSTANTIATE_TEST_SUITE_P(Stores, KeptStateTest, testing::Values(Store::kMemory, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::kept_state_test
