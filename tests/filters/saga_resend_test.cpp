// Steps of unknown outcome on backends that de-duplicate by key: their stored request is sent again
// when their flow breaks, and what it turns out to have done is undone.
#include <gtest/gtest.h>

#include <algorithm>

#include "filters/saga/step_resender.h"
#include "tests/filters/saga_shop.h"

namespace recourse::saga_resend_test {
namespace {

using Lines = std::vector<std::string>;
using testing::Test;

class ResendTest : public Test {
 protected:
  void Begin() {
    world.StartSettler();
    world.StartFlows();
    world.loop.RunReady();
  }
  Policy& policy() { return const_cast<Policy&>(*world.policy); }
  void Pass(int seconds) { world.loop.RunFor(Millis(1'000 * seconds)); }
  // An order that stands, and a payment whose answer was lost; then the agent gives up.
  void LoseThePayment() {
    (void)world.Call(Write("orders"));
    world.instead.emplace("POST /v1/charges", CutAfterSend());
    EXPECT_EQ(world.Call(Write("charges")).status, 502);
  }
  void Cancel() {
    policy().flow_rules.agent_may_cancel = true;
    EXPECT_EQ(world.Order("cancel").status, 202);
  }
  // One try for the payment, as somebody who still takes it for unknown makes it.
  ResendOutcome TryOnce(Event payment) {
    StepResender resender({world.ledger, world.upstream, world.loop.executor(), world.loop.clock(),
                           [](const std::string&) { return std::string("s3cret"); }});
    return world.loop.Run(resender.Try(std::move(payment), world.policy, world.policy, 10, 0));
  }
  std::string KeyOf(std::size_t write) {
    const std::string* key =
        FindHeader(world.upstream.writes.at(write).request.headers, "Idempotency-Key");
    return key == nullptr ? "" : *key;
  }
  Checkout world;
};

TEST_F(ResendTest, AnUnknownStepIsSentAgainUnderItsKeyAndItsEffectUndoneOnce) {
  Begin();
  LoseThePayment();
  const HttpRequest sent = world.upstream.writes.at(1).request;
  Pass(5);
  EXPECT_EQ(world.upstream.writes.size(), 2U);  // nobody asked for it again
  Cancel();
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(Sent(world), (Lines{"POST /orders", "POST /v1/charges", "POST /v1/charges",
                                "POST /v1/refunds", "DELETE /orders/id-1"}));
  const HttpRequest again = world.upstream.writes.at(2).request;
  EXPECT_EQ(again.body, sent.body);
  EXPECT_EQ(again.headers, sent.headers);
  EXPECT_EQ(KeyOf(2), KeyOf(1));
  EXPECT_EQ(world.upstream.writes.at(3).request.body, R"({"charge":"id-2"})");
  EXPECT_EQ(world.Call(Write("charges")).error, ErrorCode::kCompensated);
}

TEST_F(ResendTest, TriesThatTellNothingEndAndTheFlowIsParked) {
  Begin();
  policy().flow_rules.undos_per_second = 100;
  LoseThePayment();
  for (int i = 0; i < 30; ++i) world.instead.emplace("POST /v1/charges", CutAfterSend());
  Cancel();
  Pass(3'600);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_NE(world.Flow().reason.find("was sent 10 times under its key"), std::string::npos)
      << world.Flow().reason;
  const Lines sent = Sent(world);
  EXPECT_EQ(std::count(sent.begin(), sent.end(), "POST /v1/charges"), 10);
  for (std::size_t i = 2; i < world.upstream.writes.size(); ++i) EXPECT_EQ(KeyOf(i), KeyOf(1));
}

TEST_F(ResendTest, ARefusalOfItsCredentialsProvesNothingAndSaysWhatToConfigure) {
  for (const int status : {401, 403}) {
    Checkout shop;
    shop.StartFlows();
    const_cast<Policy&>(*shop.policy).flow_rules.agent_may_cancel = true;
    shop.instead.emplace("POST /v1/charges", CutAfterSend());
    (void)shop.Call(Write("charges"));
    shop.instead.emplace("POST /v1/charges", Respond(status, "{}"));
    (void)shop.Order("cancel");
    shop.loop.RunFor(Millis(60'000));
    EXPECT_EQ(shop.PhaseOf(), FlowPhase::kNeedsHuman);
    EXPECT_EQ(shop.StepPhase(0), Phase::kUncertain);
    EXPECT_NE(shop.Flow().reason.find("give its tool's undo the credentials"), std::string::npos)
        << shop.Flow().reason;
    EXPECT_EQ(shop.upstream.writes.size(), 2U);
  }
}

TEST_F(ResendTest, TheUndosOwnCredentialsMayNotFindTheKey) {
  Begin();
  ToolOf(policy(), "pay").undo->secrets = {{"Authorization", "/run/secrets/bank", "Bearer "}};
  LoseThePayment();
  Cancel();
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_NE(world.Flow().reason.find("key_scope: account"), std::string::npos);
}

TEST_F(ResendTest, TheUndosCredentialsGoWithItWhereTheKeyIsTheAccounts) {
  Begin();
  for (Backend& backend : policy().backends) backend.key.is_accounts = true;
  ToolOf(policy(), "pay").undo->secrets = {{"Authorization", "/run/secrets/bank", "Bearer "}};
  LoseThePayment();
  Cancel();
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  const auto& headers = world.upstream.writes.at(2).request.headers;
  ASSERT_NE(FindHeader(headers, "Authorization"), nullptr);
  EXPECT_EQ(*FindHeader(headers, "Authorization"), "Bearer s3cret");
}

TEST_F(ResendTest, WhatWasApprovedGoesWithTheCredentialsOfItsApproval) {
  Checkout shop;
  shop.StartFlows();
  shop.StartApprovals();
  Policy& rules = const_cast<Policy&>(*shop.policy);
  rules.flow_rules.agent_may_cancel = true;
  ApprovalRule& rule = ToolOf(rules, "pay").approval.emplace();
  rule.by = {"finance"};
  rule.secrets = {{"Authorization", "/run/secrets/bank", "Approved "}};
  shop.instead.emplace("POST /v1/charges", CutAfterSend());
  const auto told = shop.Start(Write("charges"));
  const auto claims = shop.loop.Run(shop.ledger.Claims(0, 10, shop.loop.executor()));
  const Event& claim = claims->at(0).event;
  ASSERT_TRUE(shop.loop.Run(shop.approvals.DecideNow({.kind = ApprovalOrder::Kind::kApprove,
                                                      .operation = claim.operation,
                                                      .by = {"ann", {"finance"}},
                                                      .digest = claim.approval->digest})));
  shop.loop.RunFor(Millis(1'000));
  (void)shop.Order("cancel");
  shop.loop.RunFor(Millis(5'000));
  ASSERT_GE(shop.upstream.writes.size(), 2U);
  for (const std::size_t sent : {0U, 1U}) {
    const auto& headers = shop.upstream.writes.at(sent).request.headers;
    ASSERT_NE(FindHeader(headers, "Authorization"), nullptr) << sent;
    EXPECT_EQ(*FindHeader(headers, "Authorization"), "Approved s3cret");
  }
}

TEST_F(ResendTest, TheAgentsCredentialsGoWithItOnlyWhereThePolicyKeepsThem) {
  for (const bool is_kept : {true, false}) {
    Checkout shop;
    shop.StartFlows();
    Policy& rules = const_cast<Policy&>(*shop.policy);
    rules.flow_rules.agent_may_cancel = true;
    if (is_kept) ToolOf(rules, "pay").undo->from_call = {"Authorization"};
    CallSpec call = Write("charges");
    call.headers.emplace_back("Authorization", "Bearer agent");
    shop.instead.emplace("POST /v1/charges", CutAfterSend());
    (void)shop.Call(call);
    (void)shop.Order("cancel");
    shop.loop.RunFor(Millis(5'000));
    ASSERT_GE(shop.upstream.writes.size(), 2U);
    const std::string* sent =
        FindHeader(shop.upstream.writes.at(1).request.headers, "Authorization");
    EXPECT_EQ(sent != nullptr, is_kept);
  }
}

// Another field, or another backend by that name, would not know the key: the call would be new.
TEST_F(ResendTest, AChangedKeyHeaderParks) {
  Begin();
  LoseThePayment();
  world.older.push_back(world.policy);
  auto changed = DraftOf(kCheckoutPolicy);
  changed->version = "changed";
  for (Backend& backend : changed->backends) {
    if (backend.name == "bank") backend.key.at = {RequestPlace::Where::kHeader, "X-Request-Id"};
  }
  changed->flow_rules.agent_may_cancel = true;
  world.policy = changed;
  EXPECT_EQ(world.Order("cancel").status, 202);
  Pass(60);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_NE(world.Flow().reason.find("another backend or key_header"), std::string::npos)
      << world.Flow().reason;
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

// An earlier version kept no word of the key: of one attempt its request tells it, of more it does
// not.
TEST_F(ResendTest, WhatWasSentTwiceUnderKeysThatNobodyKnowsParks) {
  LoseThePayment();
  auto open = world.loop.Run(world.ledger.Open(0, 10, world.loop.executor()));
  ASSERT_TRUE(open && open->size() == 1);
  Event payment = open->at(0);
  EXPECT_EQ(ObjectionToResend(payment, world.policy.get(), world.policy.get()), std::nullopt);
  payment.key_field.reset();
  payment.intent = {};
  EXPECT_EQ(ObjectionToResend(payment, world.policy.get(), world.policy.get()), std::nullopt);
  payment.attempt = 2;
  const auto objection = ObjectionToResend(payment, world.policy.get(), world.policy.get());
  ASSERT_TRUE(objection);
  EXPECT_NE(objection->find("perhaps under different keys"), std::string::npos) << *objection;
}

TEST_F(ResendTest, TheAgentsOwnKeyIsTheOneOfItsFirstAttempt) {
  Begin();
  ToolOf(policy(), "pay").agent_key = AgentKey::kWins;
  CallSpec call = Write("charges");
  call.headers.emplace_back("Idempotency-Key", "\"mine\"");
  for (int i = 0; i < 2; ++i) world.instead.emplace("POST /v1/charges", CutAfterSend());
  EXPECT_EQ(world.Call(call).status, 502);
  call.headers.back() = {"Recourse-Intent", "mine"};
  EXPECT_EQ(world.Call(call).status, 502);
  Cancel();
  Pass(5);
  ASSERT_GE(world.upstream.writes.size(), 3U);
  for (const std::size_t write : {0U, 1U, 2U}) EXPECT_EQ(KeyOf(write), "\"mine\"");
}

TEST_F(ResendTest, ARequestThatWasNotKeptIsNotSentAgain) {
  Begin();
  ToolOf(policy(), "pay").redact = {*ParseSelector("body#/card")};
  LoseThePayment();
  Cancel();
  Pass(60);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_NE(world.Flow().reason.find("its request was not kept"), std::string::npos);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

// The backend never got the first one: then the one sent again is the first, and is undone.
TEST_F(ResendTest, ARefusalAfterTheLostAnswerProvesNothing) {
  Begin();
  LoseThePayment();
  world.instead.emplace("POST /v1/charges", Respond(422, "{}"));
  Cancel();
  Pass(60);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_EQ(world.StepPhase(1), Phase::kUncertain);
  EXPECT_NE(world.Flow().reason.find("the backend answered 422"), std::string::npos);
  // A human looks, and says so.
  const std::uint64_t step = world.Flow().steps.at(1).operation;
  ASSERT_TRUE(world.Act(FlowAction::Kind::kAbsent, step));
  Pass(5);
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST_F(ResendTest, OnlyAKnownOutcomeIsCalledSettled) {
  world.instead.emplace("POST /v1/charges", After(Millis(30'000), Created("late")));
  const auto told = world.Start(Write("charges"));
  const Event payment = world.Events().back();
  ASSERT_EQ(payment.phase, Phase::kDispatching);
  EXPECT_EQ(TryOnce(payment).kind, ResendOutcome::Kind::kAgain) << "it is being sent";
  Event other = payment;
  other.args_hash = Digest{1};
  EXPECT_EQ(TryOnce(other).kind, ResendOutcome::Kind::kStuck) << "it would be another call";
  Pass(40);
  ASSERT_EQ(told->status, 201);
  EXPECT_EQ(TryOnce(payment).kind, ResendOutcome::Kind::kSettled);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

}  // namespace
}  // namespace recourse::saga_resend_test
