// Flows that are over, and whose undo a human asks for all the same.
#include <gtest/gtest.h>

#include <utility>

#include "tests/ledger/flow_fixture.h"

namespace recourse::flow_reopen_test {
namespace {

using Kind = Begun::Kind;

class FlowReopenTest : public FlowTest {
 protected:
  Result<FlowState> Reopen(const FlowState& flow) {
    return Await(ledger_->MoveFlow({.number = flow.number,
                                    .from = FlowPhase::kCommitted,
                                    .to = FlowPhase::kBreaking,
                                    .cause = FlowCause::kHuman,
                                    .reason = "wrong customer",
                                    .reopened = flow},
                                   executor_),
                 executor_);
  }
};

TEST_P(FlowReopenTest, AFlowThatIsOverIsFoundInTheLogAndCanBeReopened) {
  const Event first = Done("a");
  const Event second = Done("b");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  Restart();
  auto found = Find(first.operation);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->phase, FlowPhase::kCommitted);
  ASSERT_EQ(found->steps.size(), 2U);
  EXPECT_EQ(found->steps[1].operation, second.operation);
  const auto reopened = Reopen(*found);
  ASSERT_TRUE(reopened) << reopened.error().detail();
  EXPECT_EQ(reopened->steps.size(), 2U);
  EXPECT_EQ(Begin(Step("c")).kind, Kind::kFlowClosed);
  EXPECT_FALSE(Find(second.operation)) << "only its first step names a flow";
}

TEST_P(FlowReopenTest, AFlowIsReopenedThoughALaterOneOfItsTraceWasUndone) {
  const Event first = Done("a");
  MoveTo(first.operation, FlowPhase::kOpen, FlowPhase::kCommitted);
  const Event stray = Dispatch(Step("b"));
  const auto over = Find(first.operation);
  ASSERT_TRUE(over);
  EXPECT_FALSE(Reopen(*over)) << "the later one is not over";
  Record(Move(stray, Phase::kRejected, Cause::kAnswer));
  MoveTo(stray.operation, FlowPhase::kOpen, FlowPhase::kBreaking);
  MoveTo(stray.operation, FlowPhase::kBreaking, FlowPhase::kUndoing);
  MoveTo(stray.operation, FlowPhase::kUndoing, FlowPhase::kUndone);
  Restart();
  EXPECT_EQ(Begin(Step("c")).kind, Kind::kFlowClosed);
  const auto reopened = Reopen(*over);
  ASSERT_TRUE(reopened) << reopened.error().detail();
  EXPECT_EQ(reopened->steps.size(), 1U);
  Restart();
  EXPECT_EQ(Begin(Step("d")).kind, Kind::kFlowClosed);
  ASSERT_EQ(Flows().size(), 1U);
  EXPECT_EQ(Flows()[0].number, first.operation);
  EXPECT_EQ(Flows()[0].phase, FlowPhase::kBreaking);
}

INSTANTIATE_TEST_SUITE_P(Stores, FlowReopenTest,
                         testing::Values(FlowStore::kMemory, FlowStore::kLmdb,
                                         FlowStore::kLmdbWithoutIndex, FlowStore::kPostgres),
                         [](const auto& of) { return NameOf(of.param); });

}  // namespace
}  // namespace recourse::flow_reopen_test
