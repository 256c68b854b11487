// What retention leaves of flows: nothing of those that are over, and all of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "filters/ledger/queries/flow_queries.h"
#include "tests/ledger/ages.h"

namespace recourse::flow_retention_test {
namespace {

class FlowAges : public Ages {};
INSTANTIATE_TEST_SUITE_P(Index, FlowAges, testing::Bool(),
                         [](const auto& with) { return with.param ? "LostAtRestart" : "Kept"; });

NewOperation StepOfCheckout(std::string_view key) {
  NewOperation call = Call(key);
  call.event.is_step = true;
  call.event.flow_name = "checkout";
  call.event.flow_has_deadline = true;
  return call;
}

TEST_P(FlowAges, AFlowThatIsOverIsNotBegunAnewByAStepThatOutlivesItsRows) {
  Record(Move(Dispatch(StepOfCheckout("unknown")), Phase::kUncertain, Cause::kTimeout));
  const std::vector<FlowState> open = engine_->flows().List(0, 10);
  ASSERT_EQ(open.size(), 1U);
  FlowMove closed{.number = open.front().number,
                  .to = FlowPhase::kCommitted,
                  .cause = FlowCause::kHuman,
                  .reason = "looked at it"};
  ASSERT_TRUE(engine_->MoveFlow(closed));
  ASSERT_TRUE(engine_->Commit());
  Live(kDay * 20);
  Restart();
  EXPECT_EQ(engine_->flows().size(), 0U);
  Record(Success(Begin(StepOfCheckout("unknown")).event));
  for (int days = 0; days < 9; ++days) {
    Restart();
    EXPECT_EQ(engine_->flows().size(), 0U) << days;
    const std::int64_t wall_ms = ToUnixMillis(clock_.WallNow());
    EXPECT_THAT(*NewestFlows(engine_->log(), 10, wall_ms), testing::IsEmpty()) << days;
    Live(kDay);
  }
}

TEST_P(FlowAges, AFlowKeepsAStepThatHasLostItsFirstRow) {
  const Event begun = Dispatch(StepOfCheckout("slow"));
  const Event unknown = Record(Move(begun, Phase::kUncertain, Cause::kTimeout));
  Live(kDay * 7 - kDay / 2);
  Record(Success(unknown));
  Live(kDay * 2);  // the first rows are gone, the last is not
  EXPECT_GT(engine_->Stats().first_id, begun.id);
  for (const Millis time : {kDay, kDay * 20}) {
    Restart();
    const std::vector<FlowState> open = engine_->flows().List(0, 10);
    ASSERT_EQ(open.size(), 1U);
    EXPECT_EQ(open.front().number, begun.operation);
    ASSERT_EQ(open.front().steps.size(), 1U);
    EXPECT_EQ(open.front().steps.front().phase, Phase::kSucceeded);
    Live(time);
  }
}

}  // namespace
}  // namespace recourse::flow_retention_test
