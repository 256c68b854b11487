// The anomaly of the hanging forward step: a request that was lost takes effect after its absence
// was proved. A step of a broken flow is looked at once more before the flow is called UNDONE.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/filters/saga_shop.h"

namespace recourse::saga_late_test {
namespace {

constexpr const char* kByKey = "request: \"GET /charges/{key}\"";
constexpr const char* kKeyBeside = "request: \"GET /charges\", headers: { X-Trace: \"{key}\" }";

// Orders are asked for by what another order may have, too; payments as `asks` says.
std::shared_ptr<Policy> PolicyBuilder(const std::string& asks) {
  std::string yaml = kCheckoutPolicy;
  const std::string at = "    match: POST bank /charges\n";
  yaml.insert(yaml.find(at) + at.size(),
              "    settle: { " + asks + ", happened: answer.body#/id, absent_after: 5s }\n");
  return DraftOf(yaml);
}

class HangingForwardStep : public testing::Test {
 protected:
  // One step stands, the connection of `lost` breaks, and the shipment breaks the flow; that step
  // is proved absent, and the other is undone.
  void Lose(const std::string& lost, const std::string& asks = kByKey) {
    shop = std::make_unique<Checkout>(PolicyBuilder(asks));
    shop->upstream.probe = [this](const HttpRequest&) {
      return has_arrived ? Respond(200, R"({"id":"late"})") : after_proof;
    };
    shop->StartSettler();
    shop->StartFlows();
    shop->loop.RunReady();
    (void)shop->Call(Write(lost == "orders" ? "charges" : "orders"));
    shop->instead.emplace("POST ", CutAfterSend());
    (void)shop->Start(Write(lost));
    shop->instead.emplace("POST /shipments", Respond(422, "{}"));
    (void)shop->Start(Write("shipments"));
    for (int i = 0; i < 300 && shop->StepPhase(0) != Phase::kCompensated; ++i) Pass(Millis(100));
    ASSERT_EQ(shop->StepPhase(0), Phase::kCompensated);
    ASSERT_EQ(shop->StepPhase(1), Phase::kProvenAbsent);
    ASSERT_EQ(shop->PhaseOf(), FlowPhase::kUndoing) << "it is still to be looked at";
  }
  void Pass(Millis time) { shop->loop.RunFor(time); }
  void ExpectRefund() {
    EXPECT_EQ(Sent(*shop).back(), "POST /v1/refunds");
    EXPECT_EQ(shop->upstream.writes.back().request.body, R"({"charge":"late"})");
  }
  Step after_proof = Respond(404, "");
  bool has_arrived = false;
  std::unique_ptr<Checkout> shop;
};

TEST_F(HangingForwardStep, AnEffectFoundByItsOwnKeyIsUndone) {
  Lose("charges");
  has_arrived = true;
  Pass(Millis(8'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(shop->StepPhase(1), Phase::kCompensated);
  ExpectRefund();
  EXPECT_EQ(shop->Call(Write("charges")).error, ErrorCode::kCompensated);
}

TEST_F(HangingForwardStep, AnEffectThatMayBeAnothersWaitsForAHuman) {
  Lose("orders");
  const std::size_t sent = shop->upstream.writes.size();
  has_arrived = true;
  Pass(Millis(8'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_NE(shop->Flow().reason.find("finds an effect now"), std::string::npos);
  EXPECT_EQ(shop->upstream.writes.size(), sent) << "nobody knows whose it is";
  ASSERT_TRUE(shop->Act(FlowAction::Kind::kRetry));
  Pass(Millis(8'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kNeedsHuman) << "a retry decides nothing";
  const std::uint64_t order = shop->Flow().steps.at(1).operation;
  ASSERT_TRUE(shop->Act(FlowAction::Kind::kAbsent, order));
  Pass(Millis(1'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(shop->upstream.writes.size(), sent);
}

TEST_F(HangingForwardStep, AKeyThatSelectsNothingDoesNotMakeAnEffectItsOwn) {
  Lose("charges", kKeyBeside);
  const std::size_t sent = shop->upstream.writes.size();
  has_arrived = true;
  Pass(Millis(8'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(shop->upstream.writes.size(), sent) << "it may be another flow's";
}

TEST_F(HangingForwardStep, AHumanWhoKnowsThatItIsItsOwnSaysSo) {
  Lose("orders");
  has_arrived = true;
  Pass(Millis(8'000));
  ASSERT_EQ(shop->PhaseOf(), FlowPhase::kNeedsHuman);
  const std::uint64_t order = shop->Flow().steps.at(1).operation;
  ASSERT_TRUE(shop->Act(FlowAction::Kind::kHappened, order));
  Pass(Millis(8'000));
  EXPECT_EQ(shop->StepPhase(1), Phase::kSucceeded);
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kNeedsHuman) << "its undo needs a name that nobody has";
  ASSERT_TRUE(shop->Act(FlowAction::Kind::kDone, order));
  Pass(Millis(1'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndone);
}

TEST_F(HangingForwardStep, WhatNeverArrivesIsLookedForOnceAndTheFlowIsUndone) {
  Lose("charges");
  const std::size_t before = shop->upstream.probes.size();
  Pass(Millis(8'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(shop->StepPhase(1), Phase::kProvenAbsent);
  EXPECT_EQ(shop->upstream.probes.size(), before + 1);
}

TEST_F(HangingForwardStep, LooksThatTellNothingEndAndTheProofStands) {
  Lose("charges");
  after_proof = Respond(500, "{}");
  Pass(Millis(30'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndoing);
  Pass(Millis(60'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndone);
}

TEST_F(HangingForwardStep, IsLookedForByTheNextProcessToo) {
  Lose("charges");
  shop->flows.Stop();
  Pass(Millis(500));
  has_arrived = true;
  FlowWorker next({shop->ledger,
                   shop->upstream,
                   shop->settle_worker,
                   shop->loop.executor(),
                   shop->loop.timer(),
                   shop->loop.clock(),
                   shop->random,
                   [this](const std::string&) { return shop->policy; },
                   [](const std::string&) { return std::string("s3cret"); },
                   {}});
  shop->loop.Start(next.Run());
  Pass(Millis(10'000));
  EXPECT_EQ(shop->PhaseOf(), FlowPhase::kUndone);
  ExpectRefund();
  next.Stop();
  Pass(Millis(1'000));
}

}  // namespace
}  // namespace recourse::saga_late_test
