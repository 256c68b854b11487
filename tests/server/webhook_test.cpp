#include "proxy/notify/webhook.h"

#include <gtest/gtest.h>

#include "filters/ledger/memory/make_memory_ledger.h"
#include "filters/saga/undo_plan.h"
#include "policy/model/url.h"
#include "proxy/base/json/json.h"
#include "tests/support/faulty_ledger.h"
#include "tests/support/scripted_upstream.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_loop.h"

namespace recourse::webhook_test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class WebhookTest : public testing::Test {
 protected:
  WebhookTest() {
    policy_->flow_rules.webhook = {*BackendFromUrl("http://127.0.0.1:1/hook"), "secret"};
    loop_.Start(webhook_.Run());
    loop_.Start(webhook_.WatchUnknown());
  }
  ~WebhookTest() override {
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
  // A call that waits for a human, of whom nobody has heard.
  Event AskQuietly() {
    NewOperation call;
    call.event.tool = "bank.pay";
    call.event.backend = "bank";
    call.event.caller = "local";
    call.event.path = "/accounts/secret-path";
    call.event.key[0] = 8;
    call.event.request = {"POST", "/accounts/secret-path", {}, "secret-body"};
    call.approval = ApprovalAsk{
        .needed = 2, .by = {"finance"}, .expires = minutes(15), .policy = {}, .why = "amount"};
    const auto begun = loop_.Run(ledger_->Begin(std::move(call), loop_.executor()));
    return begun->event;
  }
  std::uint64_t Ask() {
    const Event claim = AskQuietly();
    webhook_.Tell(claim);
    return claim.operation;
  }
  void Reject(std::uint64_t operation) {
    ApprovalOrder order{
        .kind = ApprovalOrder::Kind::kReject, .operation = operation, .by = {"ann", {"finance"}}};
    const auto outcome = loop_.Run(ledger_->Decide(std::move(order), loop_.executor()));
    ASSERT_TRUE(outcome && outcome->moved);
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
  std::unique_ptr<FaultyLedger> ledger_ =
      std::make_unique<FaultyLedger>(MakeMemoryLedger(loop_.clock()));
  ScriptedUpstream upstream_{loop_};
  SeededRandom random_;
  std::shared_ptr<Policy> policy_ = std::make_shared<Policy>();
  std::vector<bool> counted_;
  Webhook webhook_{{.ledger = *ledger_,
                    .upstream = upstream_,
                    .executor = loop_.executor(),
                    .timer = loop_.timer(),
                    .clock = loop_.clock(),
                    .random = random_,
                    .policy = [this] { return policy_; },
                    .read_secret = [](const std::string&) { return std::string("s3cret"); },
                    .count = [this](bool is_taken) { counted_.push_back(is_taken); }}};
};

TEST_F(WebhookTest, AnOutcomeThatIsUnknownForFiveMinutesIsToldOnce) {
  const std::uint64_t operation = LoseAnswer();
  loop_.RunFor(Webhook::kUnknownFor - seconds(5));
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

TEST_F(WebhookTest, WhatIsSettledInTimeIsNoNews) {
  const std::uint64_t operation = LoseAnswer();
  loop_.RunFor(Webhook::kUnknownFor - seconds(5));
  Move(operation, Phase::kUncertain, Phase::kSucceeded);
  loop_.RunFor(minutes(30));
  EXPECT_TRUE(upstream_.writes.empty());
}

TEST_F(WebhookTest, WithoutAWebhookNobodyIsTold) {
  policy_->flow_rules.webhook.reset();
  LoseAnswer();
  loop_.RunFor(minutes(30));
  EXPECT_TRUE(upstream_.writes.empty());
}

TEST_F(WebhookTest, OneThatAReloadAddsIsToldOfWhatWaitsAlready) {
  const auto hook = std::exchange(policy_->flow_rules.webhook, std::nullopt);
  loop_.RunFor(minutes(1));
  Ask();
  loop_.RunFor(minutes(1));
  policy_->flow_rules.webhook = hook;
  loop_.RunFor(minutes(30));
  ASSERT_EQ(upstream_.writes.size(), 1U);
  EXPECT_TRUE(upstream_.writes.front().request.body.contains("approval.needed"));
}

TEST_F(WebhookTest, ACallThatWaitsForApprovalIsToldAtOnceAndWithoutWhatIsSealed) {
  const std::uint64_t operation = Ask();
  loop_.RunFor(seconds(1));
  ASSERT_EQ(upstream_.writes.size(), 1U);
  const HttpRequest& request = upstream_.writes.front().request;
  const auto told = ParseJson(request.body);
  ASSERT_TRUE(told.has_value()) << request.body;
  EXPECT_EQ(ScalarText(*told->Find("type")), "approval.needed");
  EXPECT_EQ(ScalarText(*told->Find("number")), std::to_string(operation));
  EXPECT_EQ(ScalarText(*told->Find("needs")), "2");
  EXPECT_EQ(ScalarText(told->Find("by")->items.at(0)), "finance");
  EXPECT_EQ(ScalarText(*told->Find("command")),
            "recourse approvals show " + std::to_string(operation));
  EXPECT_EQ(request.body.find("secret"), std::string::npos) << request.body;
  EXPECT_NE(FindHeader(request.headers, "Recourse-Signature"), nullptr);
}

TEST_F(WebhookTest, WhatIsDecidedBeforeItWasTakenIsNoNews) {
  upstream_.script = {Respond(500, "{}")};
  const std::uint64_t operation = Ask();
  loop_.RunFor(Millis(100));
  EXPECT_EQ(upstream_.writes.size(), 1U);
  Reject(operation);
  loop_.RunFor(minutes(30));
  EXPECT_EQ(upstream_.writes.size(), 1U);
}

TEST_F(WebhookTest, OneIsToldAtATimeAndAStopLetsItComeToItsEnd) {
  upstream_.script = {After(seconds(5), Respond(204, ""))};
  Ask();
  webhook_.TellHead(R"("type":"ledger.head")");
  loop_.RunFor(seconds(4));
  EXPECT_EQ(upstream_.writes.size(), 1U);
  webhook_.Stop();
  loop_.RunFor(seconds(2));
  EXPECT_EQ(counted_, std::vector<bool>{true});
  loop_.RunFor(seconds(10));
  EXPECT_EQ(loop_.running(), 0U);
  EXPECT_EQ(upstream_.writes.size(), 1U);
}

TEST_F(WebhookTest, PausesDoubleToACapWithJitterAndStartAnewAfterSuccess) {
  upstream_.otherwise = Respond(500, "{}");
  Ask();
  loop_.RunFor(minutes(2 * 60));
  const auto& tries = upstream_.writes;
  ASSERT_GT(tries.size(), 100U);
  for (std::size_t i = 1; i < tries.size(); ++i) {
    const Millis pause = std::chrono::duration_cast<Millis>(tries[i].at - tries[i - 1].at);
    const int failures = std::min(static_cast<int>(i), NotificationQueue::kFailuresMax);
    EXPECT_GE(pause, UndoPause(failures, {}, 0)) << i;
    EXPECT_LE(pause, UndoPause(failures, {}, 0) * 2 + Millis(100)) << i;
    EXPECT_LE(pause, seconds(33)) << i;
  }
  const auto last = tries.size() - 1;
  EXPECT_NE(tries[last].at - tries[last - 1].at, tries[last - 1].at - tries[last - 2].at)
      << "without jitter all receivers of an outage are asked at once";
  upstream_.otherwise = Respond(204, "");
  loop_.RunFor(minutes(10));
  const std::size_t count = tries.size();
  EXPECT_TRUE(counted_.back());
  upstream_.script = {Respond(500, "{}")};
  LoseAnswer();
  loop_.RunFor(minutes(10));
  ASSERT_EQ(tries.size(), count + 2);
  EXPECT_LE(tries[count + 1].at - tries[count].at, limits::kUndoBackoffFirst + Millis(100));
}

TEST_F(WebhookTest, AQuestionThatIsAskedAfterAnOutageIsToldWithinSeconds) {
  upstream_.otherwise = Respond(500, "{}");
  LoseAnswer();
  loop_.RunFor(minutes(60));
  upstream_.otherwise = Respond(204, "");
  const auto before = upstream_.writes.size();
  const auto asked = loop_.clock().Now();
  Ask();
  loop_.RunFor(seconds(5));
  ASSERT_EQ(upstream_.writes.size(), before + 2) << "and what had waited, at once";
  EXPECT_LE(upstream_.writes.back().at - asked, seconds(2));
}

TEST_F(WebhookTest, WhatWaitedAtTheStartIsToldThoughTheLedgerCouldNotBeReadAtFirst) {
  const Event claim = AskQuietly();
  for (bool FaultyLedger::* fault : {&FaultyLedger::flows_fail, &FaultyLedger::lists_fail}) {
    (*ledger_).*fault = true;
    const auto before = upstream_.writes.size();
    loop_.Start(webhook_.Load());
    loop_.RunFor(minutes(5));
    EXPECT_EQ(upstream_.writes.size(), before);
    (*ledger_).*fault = false;
    loop_.RunFor(seconds(11));
    ASSERT_EQ(upstream_.writes.size(), before + 1);
    const auto told = ParseJson(upstream_.writes.back().request.body);
    EXPECT_EQ(ScalarText(*told->Find("number")), std::to_string(claim.operation));
  }
}

TEST_F(WebhookTest, ALedgerThatStaysUnreadableIsNotReadForEver) {
  AskQuietly();
  ledger_->lists_fail = true;
  loop_.Start(webhook_.Load());
  const auto running = loop_.running();
  loop_.RunFor(minutes(15));
  EXPECT_EQ(loop_.running(), running - 1);
  ledger_->lists_fail = false;
  loop_.RunFor(minutes(15));
  EXPECT_TRUE(upstream_.writes.empty());
}

}  // namespace
}  // namespace recourse::webhook_test
