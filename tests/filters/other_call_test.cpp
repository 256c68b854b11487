// What is remembered of a call beside the ledger is of no other one that has its number since the
// ledger went back to an older state.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/approval/first_answers.h"
#include "filters/saga/flow_table.h"
#include "filters/settle/settle_queue.h"
#include "tests/filters/calls.h"

namespace recourse::other_call_filters_test {
namespace {

const Digest kOwn = Sha256("its own"), kOther = Sha256("another call's");

Event Unknown(const Digest& key, std::uint16_t attempt = 1) {
  Event event;
  event.operation = 7;
  event.attempt = attempt;
  event.key = key;
  event.phase = Phase::kUncertain;
  event.backend = "orders";
  return event;
}

TEST(OtherCallTest, ItsClientIsNotGivenTheFirstAnswerOfAnother) {
  FirstAnswers answers;
  answers.Put(AttemptId::Of(Unknown(kOwn)), HttpResponse());
  EXPECT_FALSE(answers.Take(AttemptId::Of(Unknown(kOther))));
  EXPECT_TRUE(answers.Take(AttemptId::Of(Unknown(kOwn))));
}

TEST(OtherCallTest, AHumanDidNotMeanItsStep) {
  const StepKeys meant{{7, kOwn}};
  EXPECT_TRUE(HasStep(meant, Unknown(kOwn)));
  EXPECT_FALSE(HasStep(meant, Unknown(kOther)));
  EXPECT_FALSE(HasStep({}, Unknown(kOwn)));
}

TEST(OtherCallTest, ItIsSettledInPlaceOfAnother) {
  World world(kShopPolicy);
  SettleQueue queue(world.loop.clock(), world.random);
  queue.Add(Unknown(kOwn, 3), world.policy);
  queue.Add(Unknown(kOwn, 2), world.policy);
  EXPECT_EQ(queue.Find(7)->event.attempt, 3);
  queue.Add(Unknown(kOther, 2), world.policy);
  EXPECT_EQ(queue.Find(7)->event.key, kOther);
}

TEST(OtherCallTest, ItsFlowIsNotWorkedOnAsAnother) {
  World world(kShopPolicy);
  FlowTable table(world.loop.clock(), [&](const std::string&) { return world.policy; });
  FlowState state;
  state.number = 7;
  state.id = "flow-1";
  state.caller = "agent-1";
  state.phase = FlowPhase::kBreaking;
  state.began_ms = 1'000;
  EXPECT_FALSE(table.IsOf(state));
  table.Track(state);
  EXPECT_TRUE(table.IsOf(state));
  FlowState other = state;
  other.began_ms = 1'001;
  EXPECT_FALSE(table.IsOf(other));
  other = state;
  other.id = "flow-2";
  EXPECT_FALSE(table.IsOf(other));
  other = state;
  other.caller = "agent-2";
  EXPECT_FALSE(table.IsOf(other));
}

TEST(OtherCallTest, WhoeverWaitedForAnotherIsNotToldOfIt) {
  World world(kShopPolicy);
  world.upstream.otherwise = After(Millis(2'000), Respond(201, R"({"id":"ord_1"})"));
  const auto first = world.Start(Order());
  world.loop.RunFor(Millis(100));
  const auto repeat = world.Start(Order());
  world.loop.RunFor(Millis(100));
  world.ledger.other_key = kOther;
  world.loop.RunFor(Millis(5'000));
  ASSERT_TRUE(first->done && repeat->done);
  EXPECT_EQ(first->status, 201);
  EXPECT_NE(repeat->status, 201) << repeat->body;
}

}  // namespace
}  // namespace recourse::other_call_filters_test
