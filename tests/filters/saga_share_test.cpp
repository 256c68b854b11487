// Bounds of undoing: each backend's share of what is under way, tries over restarts, what a human's
// retry is good for, and outcomes that the ledger does not take at once.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/filters/saga_shop.h"

namespace recourse::saga_share_test {
namespace {

std::string TraceOf(int number) {
  std::string trace(32, 'a');
  const std::string digits = std::to_string(number);
  return trace.replace(32 - digits.size(), digits.size(), digits);
}

class ShareTest : public testing::Test {
 protected:
  ShareTest() {
    policy().flow_rules.agent_may_cancel = true;
    policy().flow_rules.undos_per_second = 1'000;
  }
  Policy& policy() { return const_cast<Policy&>(*world.policy); }
  void Pass(int seconds) { world.loop.RunFor(Millis(1'000 * seconds)); }
  void Make(const std::string& kind, int number) {
    CallSpec call = Write(kind, std::to_string(number));
    call.trace = TraceOf(number);
    ASSERT_EQ(world.Call(call).status, 201);
  }
  std::ptrdiff_t CountOf(const std::string& line) {
    const auto sent = Sent(world);
    return std::count_if(sent.begin(), sent.end(),
                         [&](const std::string& one) { return one.starts_with(line); });
  }
  // Another process over the same ledger.
  std::unique_ptr<FlowWorker> Runner() {
    return std::unique_ptr<FlowWorker>(
        new FlowWorker({world.ledger,
                        world.upstream,
                        world.settle_worker,
                        world.loop.executor(),
                        world.loop.timer(),
                        world.loop.clock(),
                        world.random,
                        [this](const std::string&) { return world.policy; },
                        [](const std::string&) { return std::string("s3cret"); },
                        {}}));
  }
  Checkout world;
};

TEST_F(ShareTest, ABackendThatHangsHoldsUpNoOther) {
  world.StartFlows();
  constexpr int kFlows = 40;
  for (int i = 0; i < kFlows; ++i) Make("orders", i);
  Make("charges", kFlows);
  for (int i = 0; i < 10 * kFlows; ++i) world.instead.emplace("DELETE", Hang());
  for (int i = 0; i <= kFlows; ++i) {
    EXPECT_EQ(world.Order("cancel", TraceOf(i)).status, 202) << i;
  }
  Pass(2);
  EXPECT_EQ(world.PhaseOf(TraceOf(kFlows)), FlowPhase::kUndone);
  EXPECT_EQ(CountOf("DELETE"), static_cast<std::ptrdiff_t>(limits::kUndosPerBackendMax));
  Pass(130);  // two timeouts of those that hang
  EXPECT_GT(CountOf("DELETE"), static_cast<std::ptrdiff_t>(limits::kUndosPerBackendMax));
}

TEST_F(ShareTest, ManyFlowsOfOneBackendAreAllUndone) {
  world.StartFlows();
  constexpr int kFlows = 60;
  for (int i = 0; i < kFlows; ++i) Make("orders", i);
  for (int i = 0; i < kFlows; ++i) EXPECT_EQ(world.Order("cancel", TraceOf(i)).status, 202);
  Pass(20);
  for (int i = 0; i < kFlows; ++i) EXPECT_EQ(world.PhaseOf(TraceOf(i)), FlowPhase::kUndone) << i;
  EXPECT_EQ(CountOf("DELETE"), kFlows);
}

// 1,000 a second are allowed, and the clock that one waits by ticks 20 times a second.
TEST_F(ShareTest, TheNextStepIsUndoneWhenTheLastOneIsAndNotAtTheNextTick) {
  world.loop.SetTimerTick(Millis(50));
  world.StartFlows();
  constexpr int kSteps = 300;
  for (int i = 0; i < kSteps; ++i) {
    CallSpec call = Write("orders", std::to_string(i));
    call.trace = TraceOf(1);
    ASSERT_EQ(world.Call(call).status, 201);
  }
  EXPECT_EQ(world.Order("cancel", TraceOf(1)).status, 202);
  Pass(1);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kUndone);
  EXPECT_EQ(CountOf("DELETE"), kSteps);
}

TEST_F(ShareTest, APlaceThatBecomesFreeIsTakenAtOnce) {
  world.loop.SetTimerTick(Millis(50));
  world.StartFlows();
  constexpr int kRounds = 10;
  constexpr int kFlows = kRounds * static_cast<int>(limits::kUndosPerBackendMax);
  for (int i = 0; i < kFlows; ++i) {
    Make("orders", i);
    world.instead.emplace("DELETE", After(Millis(50), Respond(200, "{}")));
  }
  for (int i = 0; i < kFlows; ++i) world.Order("cancel", TraceOf(i));
  world.loop.RunFor(Millis(kRounds * 50 + 200));
  EXPECT_EQ(CountOf("DELETE"), kFlows);
}

TEST_F(ShareTest, TheRateHoldsOverEverySecond) {
  policy().flow_rules.undos_per_second = 200;
  world.loop.SetTimerTick(Millis(50));
  world.StartFlows();
  constexpr int kFlows = 900;
  for (int i = 0; i < kFlows; ++i) Make("orders", i);
  for (int i = 0; i < kFlows; ++i) world.Order("cancel", TraceOf(i));
  Pass(6);
  ASSERT_EQ(CountOf("DELETE"), kFlows);
  const auto& writes = world.upstream.writes;
  // A tenth of a second's worth may be made up for.
  constexpr std::size_t kMost = 200 + 20 + 1;
  for (std::size_t i = kFlows; i + kMost < writes.size(); ++i) {
    EXPECT_GE(writes[i + kMost].at - writes[i].at, Millis(1'000)) << i;
  }
}

TEST_F(ShareTest, TriesAreCountedOverRestarts) {
  ToolOf(policy(), "order").undo->attempts_max = 3;
  Make("orders", 1);
  for (int i = 0; i < 50; ++i) world.instead.emplace("DELETE", Respond(500, "no"));
  EXPECT_EQ(world.Order("cancel", TraceOf(1)).status, 202);
  for (int life = 0; life < 4; ++life) {
    const auto runner = Runner();
    world.loop.Start(runner->Run());
    Pass(life < 3 ? 1 : 60);  // the first ones end soon after a try
    runner->Stop();
    Pass(1);
  }
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kNeedsHuman);
  EXPECT_EQ(CountOf("DELETE"), 3);
}

TEST_F(ShareTest, AnOutcomeThatTheLedgerHasNoRoomForAtFirstIsRecordedAllTheSame) {
  world.StartFlows();
  Make("orders", 1);
  world.instead.emplace("DELETE", After(Millis(500), Respond(200, "{}")));
  world.ledger.failure =
      Error(ErrorCode::kOverloaded, "the ledger's queue is full", Delivery::kNotSent);
  EXPECT_EQ(world.Order("cancel", TraceOf(1)).status, 202);
  world.loop.RunFor(Millis(200));
  ASSERT_EQ(CountOf("DELETE"), 1);
  world.ledger.record_fails = true;
  Pass(5);
  world.ledger.record_fails = false;
  Pass(5);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kUndone);
  EXPECT_EQ(CountOf("DELETE"), 1);
}

TEST_F(ShareTest, AStepWhoseEventsCannotBeReadParksItsFlow) {
  world.StartFlows();
  Make("orders", 1);
  world.ledger.join_fails = true;
  EXPECT_EQ(world.Order("cancel", TraceOf(1)).status, 202);
  Pass(30);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kUndoing) << "it may be readable again";
  Pass(60);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kNeedsHuman);
  EXPECT_NE(world.Flow(TraceOf(1)).reason.find("cannot be read"), std::string::npos);
  world.ledger.join_fails = false;
  ASSERT_TRUE(world.Act(FlowAction::Kind::kRetry));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kUndone);
}

// What a human allows for the step that was stuck is not allowed for one that comes after it: that
// began under a policy that is lost, so its undo waits for a human's word of its own.
TEST_F(ShareTest, ARetryIsGoodForWhatWasStuckAlone) {
  world.StartFlows();
  const auto make = [&](const char* ref) {
    CallSpec call = Write("messages", ref);
    call.trace = TraceOf(1);
    ASSERT_EQ(world.Call(call).status, 201);
  };
  make("1");
  auto changed = DraftOf(kCheckoutPolicy);
  changed->version = "changed";
  changed->flow_rules = policy().flow_rules;
  world.policy = changed;  // nothing finds the one before any more
  make("2");
  world.instead.emplace("DELETE /messages/id-2", CutAfterSend());
  EXPECT_EQ(world.Order("cancel", TraceOf(1)).status, 202);
  Pass(5);
  ASSERT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kNeedsHuman);
  EXPECT_EQ(CountOf("DELETE /messages/id-2"), 1);
  ASSERT_TRUE(world.Act(FlowAction::Kind::kRetry));
  Pass(200);
  EXPECT_EQ(CountOf("DELETE /messages/id-2"), 2);
  EXPECT_EQ(CountOf("DELETE /messages/id-1"), 0);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kNeedsHuman);
  EXPECT_NE(world.Flow(TraceOf(1)).reason.find("is lost"), std::string::npos);
  ASSERT_TRUE(world.Act(FlowAction::Kind::kRetry));
  Pass(5);
  EXPECT_EQ(CountOf("DELETE /messages/id-1"), 1);
  EXPECT_EQ(world.PhaseOf(TraceOf(1)), FlowPhase::kUndone);
}

}  // namespace
}  // namespace recourse::saga_share_test
