// The flow runner when something it stands on fails: nothing is forgotten, and no undo goes to a
// place that only another policy names.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "filters/saga/flow_worker.h"
#include "tests/support/world.h"

namespace recourse::flow_runner_fault_test {
namespace {

std::string Shop(const std::string& host, const std::string& on_unknown = "on_failure") {
  return R"(version: 1
backends:
  shop: { url: http://)" +
         host + R"(, hosts: [ orders.test ] }
tools:
  orders.create:
    match: POST shop /orders
    effect: write
    external_ref: answer.body#/id
    undo: { request: "DELETE /orders/{external_ref}" }
  cards.charge:
    match: POST shop /charges
    effect: write
    breaks_flow: )" +
         on_unknown + R"(
    undo: none
    reason: charges are settled by hand
)";
}

CallSpec Charge() {
  CallSpec spec;
  spec.target = "/charges";
  return spec;
}

std::vector<FlowState> Flows(World& world) {
  auto flows = std::make_shared<std::vector<FlowState>>();
  world.loop.Start([](World& of, std::shared_ptr<std::vector<FlowState>> found) -> Task<void> {
    auto page = co_await of.ledger.Flows(0, 100, of.loop.executor());
    if (page) *found = std::move(*page);
  }(world, flows));
  world.loop.RunReady();
  return *flows;
}

// An order, then a charge that is refused.
void BreakAfterAnOrder(World& world) {
  world.upstream.script = {Respond(201, R"({"id":"7"})"), Respond(422, "{}")};
  EXPECT_EQ(world.Call({}).status, 201);
  EXPECT_EQ(world.Call(Charge()).status, 422);
}

TEST(FlowRunnerFaultTest, ABrokenFlowIsUndoneThoughTheLedgerRefusedToTellOfItForAWhile) {
  World world(Shop("127.0.0.1:9"));
  world.StartFlows();
  world.ledger.flows_fail = true;
  BreakAfterAnOrder(world);
  world.loop.RunFor(Millis(5'000));
  world.upstream.script = {Respond(204, "")};
  world.ledger.flows_fail = false;
  world.loop.RunFor(Millis(5'000));
  EXPECT_TRUE(Flows(world).empty());
  EXPECT_EQ(world.Events().back().phase, Phase::kCompensated);
}

TEST(FlowRunnerFaultTest, AFlowWhosePolicyIsLostIsParkedUntilAHumanTrustsThePolicyInForce) {
  World world(Shop("127.0.0.1:9"));
  world.ledger.flows_fail = true;  // so that the undo does not begin at once
  BreakAfterAnOrder(world);
  world.policy = PolicyOf(Shop("127.0.0.2:9"));
  world.ledger.flows_fail = false;
  const std::size_t sent = world.upstream.writes.size();
  world.StartFlows();
  world.loop.RunFor(Millis(10'000));
  auto flows = Flows(world);
  ASSERT_EQ(flows.size(), 1U);
  EXPECT_EQ(flows[0].phase, FlowPhase::kNeedsHuman);
  EXPECT_NE(flows[0].reason.find("is lost"), std::string::npos) << flows[0].reason;
  EXPECT_EQ(world.upstream.writes.size(), sent);
}

}  // namespace
}  // namespace recourse::flow_runner_fault_test
