#include "proxy/server/flow_webhook.h"

#include <gtest/gtest.h>

#include "proxy/base/json.h"
#include "tests/support/scripted_upstream.h"
#include "tests/support/test_loop.h"

namespace recourse {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class WebhookOfUnknown : public testing::Test {
 protected:
  WebhookOfUnknown() {
    policy_->flow_rules.webhook = {"http://127.0.0.1:1/hook", "secret"};
    loop_.Start(webhook_.Run());
    loop_.Start(webhook_.WatchUnknown());
  }
  ~WebhookOfUnknown() override {
    webhook_.Stop();
    loop_.RunFor(minutes(10));
    EXPECT_EQ(loop_.running(), 0U);
  }

  // A write that was sent and got no answer.
  std::uint64_t LoseAnswer() {
    NewOperation call;
    call.event.tool = "orders.create";
    call.event.backend = "shop";
    call.event.caller = "local";
    call.event.path = "/orders/secret-path";
    call.event.key[0] = 7;
    const auto begun = loop_.Run(ledger_->Begin(std::move(call), loop_.executor()));
    Move(begun->event.operation, Phase::kDispatching, Phase::kUncertain);
    return begun->event.operation;
  }
  void Move(std::uint64_t operation, Phase from, Phase to) {
    Transition transition;
    transition.operation = operation;
    transition.from = from;
    transition.attempt = 1;
    transition.to = to;
    transition.cause = Cause::kTimeout;
    EXPECT_TRUE(loop_.Run(ledger_->Record(std::move(transition), loop_.executor())).has_value());
  }

  TestLoop loop_;
  std::unique_ptr<Ledger> ledger_ = MakeMemoryLedger(loop_.clock());
  ScriptedUpstream upstream_{loop_};
  std::shared_ptr<Policy> policy_ = std::make_shared<Policy>();
  std::vector<bool> counted_;
  FlowWebhook webhook_{
      {.ledger = *ledger_,
       .upstream = upstream_,
       .executor = loop_.executor(),
       .timer = loop_.timer(),
       .clock = loop_.clock(),
       .policy = [this] { return policy_; },
       .read_secret = [](const std::string&) { return Result<std::string>("s3cret"); },
       .count = [this](bool is_taken) { counted_.push_back(is_taken); }}};
};

TEST_F(WebhookOfUnknown, AnOutcomeThatIsUnknownForFiveMinutesIsToldOnce) {
  const std::uint64_t operation = LoseAnswer();
  loop_.RunFor(FlowWebhook::kUnknownFor - seconds(5));
  EXPECT_TRUE(upstream_.writes.empty());
  loop_.RunFor(minutes(30));
  ASSERT_EQ(upstream_.writes.size(), 1U);
  const HttpRequest& request = upstream_.writes.front().request;
  const auto told = ParseJson(request.body);
  ASSERT_TRUE(told.has_value()) << request.body;
  EXPECT_EQ(ScalarText(*told->Find("type")), "operation.unknown");
  EXPECT_EQ(ScalarText(*told->Find("number")), std::to_string(operation));
  EXPECT_EQ(ScalarText(*told->Find("tool")), "orders.create");
  EXPECT_EQ(ScalarText(*told->Find("cause")), "timeout");
  EXPECT_EQ(request.body.find("secret-path"), std::string::npos);
  EXPECT_NE(FindHeader(request.headers, "Recourse-Signature"), nullptr);
  EXPECT_EQ(counted_, std::vector<bool>{true});
}

TEST_F(WebhookOfUnknown, WhatIsSettledInTimeIsNoNews) {
  const std::uint64_t operation = LoseAnswer();
  loop_.RunFor(FlowWebhook::kUnknownFor - seconds(5));
  Move(operation, Phase::kUncertain, Phase::kSucceeded);
  loop_.RunFor(minutes(30));
  EXPECT_TRUE(upstream_.writes.empty());
}

TEST_F(WebhookOfUnknown, WithoutAWebhookNobodyIsTold) {
  policy_->flow_rules.webhook.reset();
  LoseAnswer();
  loop_.RunFor(minutes(30));
  EXPECT_TRUE(upstream_.writes.empty());
}

}  // namespace
}  // namespace recourse
