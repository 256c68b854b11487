// Flows that wait for a human: an outcome lets one go on, and one that only its deadline stopped is
// not among those that broke. All of it after a restart too.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/flow.h"
#include "tests/ledger/ledger_stores.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::flow_waits_test {
namespace {

// Whether the index is lost when the ledger starts again, and which ledger it is.
class FlowWaitsTest : public testing::TestWithParam<std::pair<Store, bool>> {
 protected:
  void Restart() {
    ledger_.reset();
    if (GetParam().second) store_.DropIndex();
    ledger_ = store_.Open(clock_);
  }
  Event Record(Transition transition) {
    auto event = Await(ledger_->Record(std::move(transition), executor_), executor_);
    EXPECT_TRUE(event) << (event ? "" : event.error().detail());
    return event ? std::move(*event) : Event();
  }
  // The first step of a flow, of unknown outcome.
  Event Unknown() {
    NewOperation call = Call("a", "flow-1");
    call.event.is_step = true;
    const auto begun = Await(ledger_->Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun && Await(begun->commit->Durable(), executor_));
    return Record(Move(begun->event, Phase::kUncertain, Cause::kTimeout));
  }
  void MoveTo(const Event& step, FlowPhase from, FlowPhase to, FlowCause cause) {
    FlowMove move{.number = step.operation, .from = from, .to = to, .cause = cause, .reason = "so"};
    ASSERT_TRUE(Await(ledger_->MoveFlow(std::move(move), executor_), executor_));
  }

  ManualClock clock_;
  PumpedExecutor executor_;
  StoredLedger store_{GetParam().first};
  std::unique_ptr<Ledger> ledger_ = store_.Open(clock_);
};

TEST_P(FlowWaitsTest, AnOutcomeLetsAParkedFlowGoOnInTheSameCommit) {
  const Event unknown = Unknown();
  MoveTo(unknown, FlowPhase::kOpen, FlowPhase::kBreaking, FlowCause::kCanceled);
  MoveTo(unknown, FlowPhase::kBreaking, FlowPhase::kNeedsHuman, FlowCause::kStuck);
  Transition absent = Move(unknown, Phase::kProvenAbsent, Cause::kHuman);
  absent.flow = Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kHuman, "looked it up",
                                       FlowPhase::kNeedsHuman};
  const std::uint64_t commits = ledger_->Stats().commits;
  Record(std::move(absent));
  // A shared one says with further batches that it lives.
  if (!store_.is_shared()) EXPECT_EQ(ledger_->Stats().commits, commits + 1);
  Restart();
  const auto flows = Await(ledger_->Flows(0, 100, executor_), executor_);
  ASSERT_TRUE(flows && flows->size() == 1U);
  const FlowState& state = flows->front();
  EXPECT_EQ(state.phase, FlowPhase::kBreaking);
  EXPECT_EQ(state.reason, "looked it up");
  EXPECT_EQ(state.steps.at(0).phase, Phase::kProvenAbsent);
}

TEST_P(FlowWaitsTest, AnOutcomeMovesNoFlowThatIsElsewhere) {
  const Event unknown = Unknown();
  Transition absent = Move(unknown, Phase::kProvenAbsent, Cause::kHuman);
  absent.flow = Transition::FlowEffect{FlowPhase::kBreaking, FlowCause::kHuman, "looked it up",
                                       FlowPhase::kNeedsHuman};
  Record(std::move(absent));
  EXPECT_EQ(ledger_->Stats().flows_open, 1U);
}

TEST_P(FlowWaitsTest, AFlowThatItsDeadlineStoppedIsParkedOnlyWhileSomethingIsUnknown) {
  const Event unknown = Unknown();
  MoveTo(unknown, FlowPhase::kOpen, FlowPhase::kNeedsHuman, FlowCause::kDeadline);
  EXPECT_EQ(ledger_->Stats().flows_parked, 1U);
  EXPECT_EQ(ledger_->Stats().flows_stopped, 0U);
  EXPECT_NE(ledger_->Stats().flows_parked_since_ms, 0);
  Record(Move(unknown, Phase::kSucceeded, Cause::kProbePresent));
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(ledger_->Stats().flows_parked, 0U);
    EXPECT_EQ(ledger_->Stats().flows_stopped, 1U);
    EXPECT_EQ(ledger_->Stats().flows_parked_since_ms, 0);
    Restart();
  }
  MoveTo(unknown, FlowPhase::kNeedsHuman, FlowPhase::kCommitted, FlowCause::kHuman);
  EXPECT_EQ(ledger_->Stats().flows_stopped, 0U);
}

using Restarted = std::pair<Store, bool>;
std::string NameOfStart(const testing::TestParamInfo<Restarted>& of) {
  if (of.param.first == Store::kPostgres) return "Postgres";
  return of.param.second ? "WithoutIndex" : "WithIndex";
}
INSTANTIATE_TEST_SUITE_P(Stores, FlowWaitsTest,
                         testing::Values(Restarted(Store::kLmdb, false),
                                         Restarted(Store::kLmdb, true),
                                         Restarted(Store::kPostgres, false)),
                         NameOfStart);

}  // namespace
}  // namespace recourse::flow_waits_test
