// The whole chain when the backend or the ledger fails.
#include <gtest/gtest.h>

#include "tests/filters/calls.h"

namespace recourse::chain_fault_test {
namespace {

TEST(ChainFaultTest, ATimeoutLeavesTheOutcomeUnknownAndIsNeverSentAgain) {
  World world(kShopPolicy);
  world.upstream.otherwise = Hang();
  const Told first = world.Call(Note("a"));
  EXPECT_EQ(first.status, 504);
  EXPECT_EQ(first.error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "unknown");
  EXPECT_EQ(first.Field("Proxy-Status"), "recourse; error=http_response_timeout");
  EXPECT_EQ(first.answers, std::nullopt) << "a retry under another trace must still find it";
  for (int i = 0; i < 3; ++i) {
    const Told repeat = world.Call(Note("a"));
    EXPECT_EQ(repeat.status, 409);
    EXPECT_EQ(repeat.error, ErrorCode::kOutcomeUnknown);
    EXPECT_EQ(repeat.Field("Recourse-Event"), first.Field("Recourse-Event"));
  }
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Phases(), (Phases{kDispatching, Phase::kUncertain}));
}

TEST(ChainFaultTest, WhateverLeavesTheOutcomeUnknownIsNeverSentAgain) {
  const std::pair<Step, int> rows[] = {{CutAfterSend(), 502},       {NotHttp(), 502},
                                       {Respond(500, "oops"), 500}, {Respond(503, "oops"), 503},
                                       {Respond(409, "{}"), 409},   {Respond(303, ""), 303}};
  for (const auto& [step, status] : rows) {
    World world(kShopPolicy);
    world.upstream.script = {step};
    const Told first = world.Call(Note("a"));
    EXPECT_EQ(first.status, status);
    EXPECT_EQ(first.Field("Recourse-Outcome"), "unknown");
    EXPECT_EQ(world.Call(Note("a")).Field("Recourse-Outcome"), "unknown");
    EXPECT_EQ(world.upstream.writes.size(), 1U) << status;
    EXPECT_EQ(world.Phases(), (Phases{kDispatching, Phase::kUncertain}));
  }
}

TEST(ChainFaultTest, AnAnswerThatProvesNothingIsPassedOnOnceAndRepeatsAreToldTheTruth) {
  for (const int status : {303, 408, 409, 418, 500}) {
    World world(kShopPolicy);
    world.upstream.script = {Respond(status, R"({"error":"exists"})")};
    const Told first = world.Call(Note("a"));
    EXPECT_EQ(first.status, status);
    EXPECT_EQ(first.body, R"({"error":"exists"})");
    EXPECT_EQ(first.answers, std::nullopt) << "an outcome that is unknown answers nothing";
    CallSpec again = Note("a");
    for (const char* trace : {kTraceA, kTraceB, kTraceA}) {
      world.Deliver(first);
      again.trace = trace;
      const Told repeat = world.Call(again);
      EXPECT_EQ(repeat.status, 409) << status;
      EXPECT_EQ(repeat.error, ErrorCode::kOutcomeUnknown) << status;
      EXPECT_EQ(repeat.Field("Recourse-Event"), first.Field("Recourse-Event"));
      EXPECT_EQ(repeat.Field("Idempotent-Replayed"), "");
    }
    EXPECT_EQ(world.upstream.writes.size(), 1U) << status;
  }
}

// What SDKs that repeat calls by themselves are told of one.
void ExpectWorthARepeat(const Told& told, bool is_worth_it) {
  EXPECT_EQ(told.error, ErrorCode::kOutcomeUnknown);
  const std::string_view word = is_worth_it ? "true" : "false";
  EXPECT_NE(told.body.find("\"retryable\":" + std::string(word)), std::string::npos) << told.body;
  EXPECT_EQ(told.Field("Retry-After").empty(), !is_worth_it);
  for (const char* const name : {"x-should-retry", "stripe-should-retry"}) {
    EXPECT_EQ(told.Field(name), is_worth_it ? "" : "false") << name;
  }
}

TEST(ChainFaultTest, ARepeatIsAskedForOnlyWhereSomethingMaySettleTheCall) {
  World world(kShopPolicy);
  world.upstream.otherwise = CutAfterSend();
  ExpectWorthARepeat(world.Call(Note("a")), false);
  ExpectWorthARepeat(world.Call(Note("a")), false);
  ExpectWorthARepeat(world.Call(Order()), true);
  const CallSpec keyed = To("payments.test", "/charges");
  ExpectWorthARepeat(world.Call(keyed), true);
  ExpectWorthARepeat(world.Call(keyed), true);
}

TEST(ChainFaultTest, TheBackendsOwnKeySettlesNothingForArgumentsThatItNeverSaw) {
  World world(R"(
version: 1
backends: { shop: { url: "http://orders.test:8080", hosts: [ orders.test ], key_header: Key } }
tools:
  orders.create: { match: POST shop /orders, effect: write, undo: none, reason: test,
                   identity: [ body#/cart ], on_mismatch: replay }
)");
  world.upstream.otherwise = CutAfterSend();
  CallSpec call = Order();
  call.body = R"({"cart":1,"note":"a"})";
  ExpectWorthARepeat(world.Call(call), true);
  call.body = R"({"cart":1,"note":"b"})";
  ExpectWorthARepeat(world.Call(call), false);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainFaultTest, OtherWordsGetTheFirstAnswerOnlyWhereTheWholeIdentityIsThere) {
  World world(R"(
version: 1
backends: { shop: { url: "http://orders.test:8080", hosts: [ orders.test ] } }
tools:
  orders.create: { match: POST shop /orders, effect: write, undo: none, reason: test,
                   identity: [ body#/customer, body#/cart ], on_mismatch: replay }
)");
  const auto order = [&](const char* body) {
    CallSpec call = Order();
    call.body = body;
    const Told told = world.Call(call);
    world.Deliver(told);
    return told;
  };
  EXPECT_EQ(order(R"({"customer":1,"cart":1,"item":"tea"})").status, 201);
  EXPECT_TRUE(order(R"({"customer":1,"cart":1,"item":"milk"})").replayed);
  EXPECT_EQ(order(R"({"customer":1,"item":"tea"})").status, 201);
  EXPECT_TRUE(order(R"({"customer":1,"item":"tea"})").replayed);
  EXPECT_EQ(order(R"({"customer":1,"item":"milk"})").error, ErrorCode::kKeyReused);
  EXPECT_EQ(order(R"({"item":"tea"})").status, 201);
  EXPECT_EQ(order(R"({"item":"milk"})").status, 201) << "without any of it all arguments count";
  EXPECT_EQ(world.upstream.writes.size(), 4U);
}

TEST(ChainFaultTest, RepeatsOfAPendingCallAreToldThatItIsPendingUnderEveryTrace) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.script = {Respond(202, R"({"job":1})")};
  const Told first = world.Call(UnderTrace(kTraceA));
  EXPECT_EQ(first.status, 202);
  EXPECT_EQ(first.answers, std::nullopt);
  for (const char* trace : {kTraceA, kTraceB, kTraceB}) {
    const Told repeat = world.Call(UnderTrace(trace));
    world.Deliver(repeat);
    EXPECT_EQ(repeat.status, 202);
    EXPECT_EQ(repeat.body, first.body);
    EXPECT_EQ(repeat.Field("Recourse-Outcome"), "pending");
    EXPECT_TRUE(repeat.replayed);
  }
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainFaultTest, OtherWordsUnderAnotherTraceAreNotASecondEffectWhileTheFirstIsUnanswered) {
  World world(kShopPolicy);
  world.upstream.script = {CutAfterSend()};
  (void)world.Call(Note("first wording"));
  CallSpec reworded = Note("second wording");
  reworded.trace = kTraceB;
  const Told told = world.Call(reworded);
  EXPECT_EQ(told.status, 422);
  EXPECT_EQ(told.error, ErrorCode::kKeyReused);
  EXPECT_EQ(world.upstream.writes.size(), 1U);

  World answered(kShopPolicy);
  answered.Deliver(answered.Call(Note("first wording")));
  EXPECT_EQ(answered.Call(reworded).status, 201);
  EXPECT_EQ(answered.upstream.writes.size(), 2U);
}

TEST(ChainFaultTest, NothingSentIsToldAndTheRepeatRunsAtOnce) {
  World world(kShopPolicy);
  world.upstream.script = {RefuseConnection(), RefuseConnection(), RefuseConnection()};
  const Told first = world.Call(Order());
  EXPECT_EQ(first.status, 503);
  EXPECT_EQ(first.error, ErrorCode::kNotSent);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "not_executed");
  EXPECT_NE(first.Field("Retry-After"), "");
  EXPECT_EQ(first.attempts, limits::kUnsentAttemptsMax);
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(world.Call(Order()).status, 201);
  EXPECT_EQ(world.Phases(),
            (Phases{kDispatching, Phase::kNotSent, kDispatching, Phase::kSucceeded}));
}

TEST(ChainFaultTest, AConnectionRefusedOnceIsTriedAgainWithinTheCall) {
  World world(kShopPolicy);
  world.upstream.script = {RefuseConnection()};
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 201);
  EXPECT_EQ(told.attempts, 2);
  EXPECT_EQ(world.Phases(), (Phases{kDispatching, Phase::kSucceeded}));
}

TEST(ChainFaultTest, TooManyRequestsIsPassedOnAndTheRepeatRunsAtOnce) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(429, "slow down", {{"Retry-After", "9"}})};
  const Told first = world.Call(Order());
  EXPECT_EQ(first.status, 429);
  EXPECT_EQ(first.Field("Retry-After"), "9");
  EXPECT_EQ(first.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(world.Call(Order()).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(ChainFaultTest, AResendThatTheBackendDeduplicatesSettlesAnUnknownOutcome) {
  World world(kShopPolicy);
  world.upstream.script = {CutAfterSend(), Respond(200, R"({"id":"ch_1"})")};
  const CallSpec call = To("payments.test", "/charges");
  EXPECT_EQ(world.Call(call).status, 502);
  EXPECT_EQ(world.Call(call).status, 200);
  ASSERT_EQ(world.upstream.writes.size(), 2U);
  const HttpRequest& first = world.upstream.writes[0].request;
  const HttpRequest& second = world.upstream.writes[1].request;
  EXPECT_EQ(first.target, "/api/charges");
  EXPECT_EQ(*FindHeader(first.headers, "Idempotency-Key"),
            *FindHeader(second.headers, "Idempotency-Key"));
  EXPECT_EQ(world.Events().back().attempt, 2);
}

TEST(ChainFaultTest, EveryResendCarriesTheOperationsKeyWhateverItsTrace) {
  World world(kShopPolicy);
  world.upstream.otherwise = Respond(500, "oops");
  CallSpec call = To("payments.test", "/charges");
  for (const char* trace : {kTraceA, kTraceB, kTraceB, kTraceA, kTraceB}) {
    call.trace = trace;
    EXPECT_EQ(world.Call(call).status, 500);
  }
  ASSERT_EQ(world.upstream.writes.size(), 5U);
  for (const ScriptedUpstream::Call& write : world.upstream.writes) {
    EXPECT_EQ(*FindHeader(write.request.headers, "Idempotency-Key"),
              *FindHeader(world.upstream.writes[0].request.headers, "Idempotency-Key"));
  }
  for (const Event& event : world.Events()) {
    EXPECT_EQ(event.operation, world.Events().front().operation);
    EXPECT_EQ(event.key, world.Events().front().key);
  }
}

TEST(ChainFaultTest, AResendThatWasNotSentLeavesTheOutcomeUnknown) {
  Step early = Respond(429, "slow down");
  for (const Step& unsent : {RefuseConnection(), early}) {
    World world(kShopPolicy);
    world.upstream.script = {CutAfterSend(), unsent, unsent, unsent};
    CallSpec call = To("payments.test", "/charges");
    (void)world.Call(call);
    const Told resend = world.Call(call);
    EXPECT_EQ(resend.status, unsent.end == Step::End::kRefuse ? 409 : 429);
    EXPECT_EQ(resend.Field("Recourse-Outcome"), "unknown");
    EXPECT_EQ(world.Events().back().phase, Phase::kUncertain);
    world.upstream.script = {};
    call.trace = kTraceB;
    EXPECT_EQ(world.Call(call).status, 201);
    EXPECT_EQ(world.Events().back().operation, world.Events().front().operation);
  }
}

TEST(ChainFaultTest, AResendThatCouldNotBeRememberedIsNotToldAsNotExecuted) {
  World world(kShopPolicy);
  world.upstream.script = {CutAfterSend()};
  (void)world.Call(To("payments.test", "/charges"));
  world.ledger.commit_fails = true;
  const Told told = world.Call(To("payments.test", "/charges"));
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "unknown");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainFaultTest, TheBackendGetsItsKeyOnlyWhereThePolicySaysSo) {
  World world(kShopPolicy);
  CallSpec call = Keyed("\"my key\"");
  (void)world.Call(call);
  call.host = "payments.test";
  call.target = "/charges";
  (void)world.Call(call);
  call.host = "wallets.test";
  (void)world.Call(call);
  CallSpec unnamed = Order();
  unnamed.headers = {{"Recourse-Intent", "mine"}, {"Recourse-Flow", "f-1"}};
  (void)world.Call(unnamed);
  ASSERT_EQ(world.upstream.writes.size(), 4U);
  const auto field = [&](std::size_t i, const char* name) {
    const std::string* value = FindHeader(world.upstream.writes[i].request.headers, name);
    return value == nullptr ? std::string("<absent>") : *value;
  };
  EXPECT_EQ(field(0, "Idempotency-Key"), "\"my key\"") << "the client's own field passes as it was";
  EXPECT_EQ(field(1, "Idempotency-Key"), "\"my key\"");
  EXPECT_EQ(field(2, "PayPal-Request-Id"), "my key");
  EXPECT_EQ(field(2, "Idempotency-Key"), "\"my key\"");
  EXPECT_EQ(field(3, "Idempotency-Key"), "<absent>");
  EXPECT_EQ(field(3, "Recourse-Intent"), "<absent>");
  EXPECT_EQ(field(3, "Recourse-Flow"), "<absent>");
  EXPECT_EQ(field(3, "Accept-Encoding"), "identity");
  EXPECT_EQ(world.Events().back().flow, "f-1");
}

TEST(ChainFaultTest, WhenTheLedgerCannotBeginNothingIsSent) {
  World world(kShopPolicy);
  world.ledger.begin_fails = true;
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(world.upstream.opened, 0U);
}

TEST(ChainFaultTest, WhatTheLedgerCannotReadIsNotToldAsNotExecuted) {
  World world(kShopPolicy);
  world.ledger.begin_fails = true;
  world.ledger.failure = Error(ErrorCode::kLedgerUnavailable, "no row", Delivery::kUncertain);
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "unknown");
  EXPECT_EQ(world.upstream.opened, 0U);
}

TEST(ChainFaultTest, WhenTheDispatchingEventIsNotDurableNothingIsSent) {
  World world(kShopPolicy);
  world.ledger.commit_fails = true;
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(world.upstream.opened, 1U);
  EXPECT_TRUE(world.upstream.writes.empty());
}

class CountingPermit final : public SendPermit {
 public:
  bool Enter() override {
    ++asked;
    return is_given;
  }
  void Leave() override {}
  Millis Left() override { return Millis(1'000); }
  bool is_given = false;
  int asked = 0;
};

TEST(ChainFaultTest, WhatTheLedgersLeaseStopsIsRecordedAsNotSent) {
  World world(kShopPolicy);
  const auto permit = std::make_shared<CountingPermit>();
  world.ledger.permit = permit;
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "not_executed");
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(world.Events().back().phase, Phase::kNotSent);
  EXPECT_EQ(permit->asked, 1) << "it is not tried again at once";
  permit->is_given = true;
  EXPECT_EQ(world.Call(Order()).status, 201);
  EXPECT_EQ(world.Events().back().operation, world.Events().front().operation);
}

TEST(ChainFaultTest, EveryAttemptOfACallAsksForTheLease) {
  World world(kShopPolicy);
  const auto permit = std::make_shared<CountingPermit>();
  world.ledger.permit = permit;
  world.upstream.script = {RefuseConnection()};
  EXPECT_EQ(world.Call(Order()).status, 503);
  EXPECT_EQ(permit->asked, 1);
  EXPECT_TRUE(world.upstream.writes.empty());
}

TEST(ChainFaultTest, AnOutcomeThatCannotBeWrittenIsNotToldAsASuccess) {
  World world(kShopPolicy);
  world.ledger.record_fails = true;
  const Told told = world.Call(Order());
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "unknown");
  EXPECT_EQ(told.answers, std::nullopt);
}

TEST(ChainFaultTest, ATooLargeAnswerIsPassedOnOnceAndNotRunAgain) {
  World world(kShopPolicy);
  const std::string large(limits::kAnswerKeptBytesMax + 1, 'x');
  world.upstream.otherwise = Respond(200, large);
  EXPECT_EQ(world.Call(Order()).body, large);
  const Told repeat = world.Call(Order());
  EXPECT_EQ(repeat.status, 409);
  EXPECT_EQ(repeat.error, ErrorCode::kAnswerNotKept);
  EXPECT_EQ(repeat.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainFaultTest, ALostAnswerIsSaidToBeExecuted) {
  World world(kShopPolicy);
  Step cut = Respond(201, R"({"id":)");
  cut.answer.body_complete = false;
  world.upstream.otherwise = cut;
  for (int i = 0; i < 2; ++i) {
    const Told told = world.Call(Order());
    EXPECT_EQ(told.status, 502);
    EXPECT_EQ(told.error, ErrorCode::kAnswerLost);
    EXPECT_EQ(told.Field("Recourse-Outcome"), "executed");
  }
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainFaultTest, OwnFieldsOfABackendAreReplacedByOurs) {
  World world(kShopPolicy);
  world.upstream.otherwise = Respond(
      201, "{}",
      {{"Idempotent-Replayed", "true"}, {"Recourse-Outcome", "lies"}, {"X-Accel-Redirect", "/x"}});
  const Told told = world.Call(Order());
  EXPECT_EQ(told.Field("Idempotent-Replayed"), "");
  EXPECT_EQ(told.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(told.Field("X-Accel-Redirect"), "");
}

TEST(ChainFaultTest, TheToolsTimeoutEndsTheWaitForTheBackend) {
  World world(kShopPolicy);
  world.upstream.otherwise = After(Millis(20'001), Respond(201, "{}"));
  const MonoTime start = world.loop.now();
  EXPECT_EQ(world.Call(Note("a")).status, 504);
  EXPECT_GE(world.loop.now() - start, Millis(20'000));
  EXPECT_LE(world.loop.now() - start, Millis(20'200));
}

}  // namespace
}  // namespace recourse::chain_fault_test
