// The write path from the agent's call to its answer, with everything real above the network.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/filters/shop_policy.h"
#include "tests/support/world.h"

namespace recourse {
namespace {

using Phases = std::vector<Phase>;
constexpr Phase kDispatching = Phase::kDispatching;

CallSpec Order() { return {}; }
CallSpec UnderTrace(const std::string& trace) {
  CallSpec call;
  call.trace = trace;
  return call;
}
CallSpec Keyed(std::string key, std::string body = R"({"item":"desk"})") {
  CallSpec call;
  call.headers.emplace_back("Idempotency-Key", std::move(key));
  call.body = std::move(body);
  return call;
}
CallSpec To(std::string host, std::string target) {
  CallSpec call;
  call.host = std::move(host);
  call.target = std::move(target);
  return call;
}
CallSpec Note(std::string text) {
  CallSpec call;
  call.target = "/notes";
  call.body = R"({"order":"o1","text":")" + std::move(text) + "\"}";
  return call;
}

// Everything that a repeat must tell again; what may differ is named here.
Headers Comparable(Headers headers) {
  RemoveHeader(headers, "Idempotent-Replayed");
  RemoveHeader(headers, "Set-Cookie");
  return headers;
}

TEST(Mission, ARepeatedRequestWithTheSameKeyCreatesNoDuplicate) {
  World world(kShopPolicy);
  world.upstream.otherwise =
      Respond(201, R"({"id":"ord_1"})", {{"Location", "/orders/1"}, {"Set-Cookie", "s=1"}});
  const Told first = world.Call(Keyed("order-42"));
  const Told second = world.Call(Keyed("order-42"));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(second.status, first.status);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(Comparable(second.headers), Comparable(first.headers));
  EXPECT_EQ(first.Field("Set-Cookie"), "s=1") << "the first answer is the backend's own";
  EXPECT_EQ(second.Field("Set-Cookie"), "");
  EXPECT_EQ(first.Field("Idempotent-Replayed"), "");
  EXPECT_EQ(second.Field("Idempotent-Replayed"), "true");
  EXPECT_TRUE(second.replayed);
}

TEST(Mission, TheLogHoldsTheFullTraceOfATraceId) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(201, R"({"id":"ord_1"})"), Respond(422, R"({"error":"no"})")};
  const Told order = world.Call(Order());
  const Told note = world.Call(Note("hello"));
  (void)world.Call(UnderTrace(kTraceB));

  const auto page = world.ledger.List({.trace_id = kTraceA,
                                       .tool = {},
                                       .status = {},
                                       .phase = {},
                                       .operation = {},
                                       .after = 0,
                                       .limit = 100});
  ASSERT_TRUE(page.has_value());
  const std::vector<Event>& events = page->events;
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].phase, kDispatching);
  EXPECT_EQ(events[1].phase, Phase::kSucceeded);
  EXPECT_EQ(events[2].phase, kDispatching);
  EXPECT_EQ(events[3].phase, Phase::kRejected);
  for (const Event& event : events) {
    EXPECT_NE(event.id, 0U);
    EXPECT_NE(event.operation, 0U);
    EXPECT_NE(event.key, Digest{});
    EXPECT_NE(event.args_hash, Digest{});
    EXPECT_EQ(event.trace_id, kTraceA);
    EXPECT_EQ(event.flow, kTraceA);
    EXPECT_EQ(event.caller, "agent-1");
    EXPECT_EQ(event.attempt, 1);
    EXPECT_EQ(event.policy_version, world.policy->version);
    EXPECT_NE(event.wall_ms, 0);
    EXPECT_NE(event.cause, Cause::kNone);
    EXPECT_EQ(event.method, "POST");
  }
  EXPECT_EQ(events[1].tool, "orders.create");
  EXPECT_EQ(events[1].status(), Status::kSuccess);
  EXPECT_EQ(events[1].external_ref, "ord_1");
  EXPECT_EQ(events[1].http_status, 201);
  EXPECT_EQ(events[1].path, "/orders");
  ASSERT_TRUE(events[1].undo.has_value());
  EXPECT_EQ(events[1].undo->target, "/orders/ord_1");
  EXPECT_EQ(events[3].tool, "orders.note");
  EXPECT_EQ(events[3].status(), Status::kFailed);
  EXPECT_EQ(order.Field("Recourse-Event"), std::to_string(events[1].id));
  EXPECT_EQ(note.Field("Recourse-Event"), std::to_string(events[3].id));
  EXPECT_EQ(order.Field("Idempotency-Key"), ToHex(events[1].key));
}

TEST(ChainTest, TheSecondIdenticalWriteIsReplayedNotExecuted) {
  World world(kShopPolicy);
  const Told first = world.Call(Order());
  CallSpec reworded = Order();
  reworded.body = "{ \"amount\": 1.0, \"item\": \"desk\" }";
  const Told second = world.Call(reworded);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(second.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(second.Field("Recourse-Event"), first.Field("Recourse-Event"));
  EXPECT_EQ(world.Phases(), (Phases{kDispatching, Phase::kSucceeded}));
}

TEST(ChainTest, TwoHundredConcurrentRepeatsAreOneExchangeAndTwoHundredEqualAnswers) {
  World world(kShopPolicy);
  world.upstream.otherwise = After(Millis(500), Respond(201, R"({"id":"ord_1"})"));
  std::vector<std::shared_ptr<Told>> calls;
  for (int i = 0; i < 200; ++i) calls.push_back(world.Start(Order()));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  world.loop.RunFor(Millis(600));
  std::size_t replays = 0;
  for (const auto& told : calls) {
    ASSERT_TRUE(told->done);
    EXPECT_EQ(told->status, 201);
    EXPECT_EQ(told->body, calls.front()->body);
    EXPECT_EQ(Comparable(told->headers), Comparable(calls.front()->headers));
    if (told->replayed) ++replays;
  }
  EXPECT_EQ(replays, 199U);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainTest, ARepeatOfACallThatRunsLongerThanTheHoldIsToldSo) {
  World world(kShopPolicy);
  world.upstream.otherwise = After(Millis(10'000), Respond(201, R"({"id":"ord_1"})"));
  const auto first = world.Start(Order());
  const auto second = world.Start(Order());
  world.loop.RunFor(Millis(3'100));
  world.ledger.MarkAnswered(0);  // any verb ends the joins of the memory ledger that are over
  ASSERT_TRUE(second->done);
  EXPECT_EQ(second->status, 409);
  EXPECT_EQ(second->error, ErrorCode::kInProgress);
  EXPECT_EQ(second->Field("Retry-After"), "1");
  EXPECT_EQ(second->Field("Recourse-Outcome"), "pending");
  world.loop.RunFor(Millis(10'000));
  EXPECT_EQ(first->status, 201);
  EXPECT_EQ(world.Call(Order()).body, first->body);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainTest, ATimeoutLeavesTheOutcomeUnknownAndIsNeverSentAgain) {
  World world(kShopPolicy);
  world.upstream.otherwise = Hang();
  const Told first = world.Call(Note("a"));
  EXPECT_EQ(first.status, 504);
  EXPECT_EQ(first.error, ErrorCode::kOutcomeUnknown);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "unknown");
  EXPECT_EQ(first.Field("Proxy-Status"), "recourse; error=http_response_timeout");
  EXPECT_NE(first.Field("Retry-After"), "");
  EXPECT_EQ(first.operation, std::nullopt) << "a retry under another trace must still find it";
  for (int i = 0; i < 3; ++i) {
    const Told repeat = world.Call(Note("a"));
    EXPECT_EQ(repeat.status, 409);
    EXPECT_EQ(repeat.error, ErrorCode::kOutcomeUnknown);
    EXPECT_EQ(repeat.Field("Recourse-Event"), first.Field("Recourse-Event"));
  }
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Phases(), (Phases{kDispatching, Phase::kUncertain}));
}

TEST(ChainTest, WhateverLeavesTheOutcomeUnknownIsNeverSentAgain) {
  const std::pair<Step, int> rows[] = {{CutAfterSend(), 502},       {NotHttp(), 502},
                                       {Respond(500, "oops"), 502}, {Respond(503, "oops"), 502},
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

TEST(ChainTest, TheBackendsStatusIsNamedWhenA5xxBecomesAProblem) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(500, "stack trace")};
  const Told told = world.Call(Order());
  EXPECT_NE(told.body.find("the backend answered 500"), std::string::npos) << told.body;
  EXPECT_NE(told.Field("Proxy-Status").find("received-status=500"), std::string::npos);
}

TEST(ChainTest, AnAnswerThatWasPassedOnIsTheAnswerOfEveryRepeat) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(409, R"({"error":"exists"})")};
  const Told first = world.Call(Note("a"));
  const Told second = world.Call(Note("a"));
  EXPECT_EQ(first.body, R"({"error":"exists"})");
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(second.Field("Idempotent-Replayed"), "true");
}

TEST(ChainTest, ARefusalIsReplayedUntilItsTimeIsOver) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(422, R"({"error":"no stock"})")};
  EXPECT_EQ(world.Call(Order()).Field("Recourse-Outcome"), "rejected");
  const Told repeat = world.Call(Order());
  EXPECT_EQ(repeat.status, 422);
  EXPECT_EQ(repeat.body, R"({"error":"no stock"})");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  world.loop.Skip(limits::kFailedTtl + Millis(1));
  EXPECT_EQ(world.Call(Order()).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_EQ(world.Phases(),
            (Phases{kDispatching, Phase::kRejected, kDispatching, Phase::kSucceeded}));
  EXPECT_EQ(world.Events().back().attempt, 2);
}

TEST(ChainTest, TheSameKeyWithOtherArgumentsIsAConflictInEveryPhase) {
  World world(kShopPolicy);
  world.upstream.script = {After(Millis(1'000), Respond(201, R"({"id":"ord_1"})"))};
  const auto first = world.Start(Keyed("k1", R"({"item":"desk"})"));
  EXPECT_EQ(world.Call(Keyed("k1", R"({"item":"chair"})")).status, 422);
  world.loop.RunFor(Millis(1'000));
  ASSERT_TRUE(first->done);
  const Told other = world.Call(Keyed("k1", R"({"item":"chair"})"));
  EXPECT_EQ(other.status, 422);
  EXPECT_EQ(other.error, ErrorCode::kKeyReused);
  EXPECT_EQ(world.Call(Keyed("k1", R"({ "item": "desk" })")).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainTest, AReworkedTextUnderTheSameIdentityIsAConflictNotASecondEffect) {
  World world(kShopPolicy);
  EXPECT_EQ(world.Call(Note("first wording")).status, 201);
  EXPECT_EQ(world.Call(Note("second wording")).status, 422);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ChainTest, AnotherAgentsKeyIsAnotherRecord) {
  World world(kShopPolicy);
  CallSpec other = Keyed("k1", R"({"secret":"chair"})");
  other.caller = "agent-2";
  EXPECT_EQ(world.Call(Keyed("k1")).status, 201);
  EXPECT_EQ(world.Call(other).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(ChainTest, UnansweredCallsAreFoundAgainUnderAnotherTrace) {
  World world(kShopPolicy);
  const Told first = world.Call(UnderTrace(kTraceA));  // the client went away before the answer
  const Told retry = world.Call(UnderTrace(kTraceB));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(retry.body, first.body);
  EXPECT_TRUE(retry.replayed);
}

TEST(ChainTest, AnsweredCallsUnderAnotherTraceAreNewCalls) {
  World world(kShopPolicy);
  const Told first = world.Call(UnderTrace(kTraceA));
  world.Deliver(first);
  const Told second = world.Call(UnderTrace(kTraceB));
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_FALSE(second.replayed);
  EXPECT_NE(second.Field("Idempotency-Key"), first.Field("Idempotency-Key"));
}

TEST(ChainTest, AcrossTracesNeverKeepsTracesApart) {
  World world(kShopPolicy);
  CallSpec call = To("orders.test", "/once");
  (void)world.Call(call);
  call.trace = kTraceB;
  (void)world.Call(call);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(ChainTest, WithoutATraceTheDedupeWindowSeparatesRepeatsFromNewCalls) {
  World world(kShopPolicy);
  const Told first = world.Call(UnderTrace(""));
  world.loop.Skip(limits::kDedupeWindow - Millis(1));
  EXPECT_TRUE(world.Call(UnderTrace("")).replayed);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  world.loop.Skip(Millis(2));
  const Told later = world.Call(UnderTrace(""));
  EXPECT_FALSE(later.replayed);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_NE(later.Field("Idempotency-Key"), first.Field("Idempotency-Key"));
}

TEST(ChainTest, TheNextOperationOfAWindowGoesUpstreamUnderAKeyOfItsOwn) {
  World world(kShopPolicy);
  CallSpec call = To("payments.test", "/charges");
  call.trace.clear();
  const Told first = world.Call(call);
  world.loop.Skip(limits::kDedupeWindow + Millis(1));
  const Told second = world.Call(call);
  ASSERT_EQ(world.upstream.writes.size(), 2U);
  const auto key = [&](std::size_t i) {
    return *FindHeader(world.upstream.writes[i].request.headers, "Idempotency-Key");
  };
  EXPECT_EQ(key(0), first.Field("Idempotency-Key"));
  EXPECT_EQ(key(1), second.Field("Idempotency-Key"));
  EXPECT_NE(key(0), key(1));
}

TEST(ChainTest, NothingSentIsToldAndTheRepeatRunsAtOnce) {
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

TEST(ChainTest, AConnectionRefusedOnceIsTriedAgainWithinTheCall) {
  World world(kShopPolicy);
  world.upstream.script = {RefuseConnection()};
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 201);
  EXPECT_EQ(told.attempts, 2);
  EXPECT_EQ(world.Phases(), (Phases{kDispatching, Phase::kSucceeded}));
}

TEST(ChainTest, TooManyRequestsIsPassedOnAndTheRepeatRunsAtOnce) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(429, "slow down", {{"Retry-After", "9"}})};
  const Told first = world.Call(Order());
  EXPECT_EQ(first.status, 429);
  EXPECT_EQ(first.Field("Retry-After"), "9");
  EXPECT_EQ(first.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(world.Call(Order()).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(ChainTest, AResendThatTheBackendDeduplicatesSettlesAnUnknownOutcome) {
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

TEST(ChainTest, TheBackendGetsItsKeyOnlyWhereThePolicySaysSo) {
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

TEST(ChainTest, WhenTheLedgerCannotBeginNothingIsSent) {
  World world(kShopPolicy);
  world.ledger.begin_fails = true;
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(world.upstream.opened, 0U);
}

TEST(ChainTest, WhenTheDispatchingEventIsNotDurableNothingIsSent) {
  World world(kShopPolicy);
  world.ledger.commit_fails = true;
  const Told told = world.Call(Order());
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(world.upstream.opened, 1U);
  EXPECT_TRUE(world.upstream.writes.empty());
}

TEST(ChainTest, AnOutcomeThatCannotBeWrittenIsNotToldAsASuccess) {
  World world(kShopPolicy);
  world.ledger.record_fails = true;
  const Told told = world.Call(Order());
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(told.status, 503);
  EXPECT_EQ(told.error, ErrorCode::kLedgerUnavailable);
  EXPECT_EQ(told.Field("Recourse-Outcome"), "unknown");
  EXPECT_EQ(told.operation, std::nullopt);
}

TEST(ChainTest, ATooLargeAnswerIsPassedOnOnceAndNotRunAgain) {
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

TEST(ChainTest, ALostAnswerIsSaidToBeExecuted) {
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

TEST(ChainTest, OwnFieldsOfABackendAreReplacedByOurs) {
  World world(kShopPolicy);
  world.upstream.otherwise = Respond(
      201, "{}",
      {{"Idempotent-Replayed", "true"}, {"Recourse-Outcome", "lies"}, {"X-Accel-Redirect", "/x"}});
  const Told told = world.Call(Order());
  EXPECT_EQ(told.Field("Idempotent-Replayed"), "");
  EXPECT_EQ(told.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(told.Field("X-Accel-Redirect"), "");
}

TEST(ChainTest, WhatNeedsAHumanIsRefusedAndLeavesNothingBehind) {
  World world(kShopPolicy);
  CallSpec mail = To("orders.test", "/mail");
  CallSpec large = To("orders.test", "/pay");
  large.body = R"({"amount":1000.01})";
  CallSpec unclear = large;
  unclear.body = R"({"amount":"1"})";
  CallSpec unreadable = large;
  unreadable.body = R"({"amount":1,"amount":5000})";
  for (const CallSpec& call : {mail, large, unclear, unreadable}) {
    const Told told = world.Call(call);
    EXPECT_EQ(told.status, 403) << call.body;
    EXPECT_EQ(told.error, ErrorCode::kApprovalUnavailable) << call.body;
  }
  EXPECT_EQ(world.upstream.opened, 0U);
  EXPECT_TRUE(world.Events().empty());
  CallSpec small = large;
  small.body = R"({"amount":1000})";
  EXPECT_EQ(world.Call(small).status, 201);
}

TEST(ChainTest, CallsThatCannotBeKeyedAreRefusedWithTheReason) {
  World world(kShopPolicy);
  struct Row {
    CallSpec call;
    int status;
    const char* text;
  };
  CallSpec twice = Order();
  twice.body = R"({"a":1,"a":2})";
  CallSpec latin = Order();
  latin.content_type = "application/json; charset=iso-8859-1";
  CallSpec flow = Order();
  flow.headers.emplace_back("Recourse-Flow", "two words");
  const Row rows[] = {{twice, 400, "duplicate"},
                      {latin, 415, "UTF-8"},
                      {Keyed("two words"), 400, "bare key"},
                      {flow, 400, "Recourse-Flow"},
                      {To("orders.test", "/runs"), 428, "the header X-Run-Id"}};
  for (const Row& row : rows) {
    const Told told = world.Call(row.call);
    EXPECT_EQ(told.status, row.status) << row.text;
    EXPECT_NE(told.body.find(row.text), std::string::npos) << told.body;
  }
  EXPECT_EQ(world.upstream.opened, 0U);
  EXPECT_TRUE(world.Events().empty());
}

TEST(ChainTest, UnlistedWritesAreGuardedLikeTools) {
  World world(kShopPolicy);
  CallSpec call = To("orders.test", "/elsewhere");
  const Told first = world.Call(call);
  EXPECT_TRUE(world.Call(call).replayed);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Events().front().tool, "unlisted.orders");
  EXPECT_EQ(first.status, 201);
}

TEST(ChainTest, UnlistedWritesThatPassAreLoggedAndLeftAlone) {
  World world(kShopPolicy);
  world.upstream.otherwise = Respond(500, "as it is");
  CallSpec call = To("orders.test", "/elsewhere");
  call.guarded = false;
  call.body = "{not json";
  for (int i = 0; i < 2; ++i) {
    const Told told = world.Call(call);
    EXPECT_EQ(told.status, 500);
    EXPECT_EQ(told.body, "as it is");
    EXPECT_FALSE(told.replayed);
  }
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_EQ(FindHeader(world.upstream.writes[0].request.headers, "Accept-Encoding"), nullptr);
  EXPECT_EQ(world.Phases().size(), 4U);
}

TEST(ChainTest, TheToolsTimeoutEndsTheWaitForTheBackend) {
  World world(kShopPolicy);
  world.upstream.otherwise = After(Millis(20'001), Respond(201, "{}"));
  const MonoTime start = world.loop.now();
  EXPECT_EQ(world.Call(Note("a")).status, 504);
  EXPECT_GE(world.loop.now() - start, Millis(20'000));
  EXPECT_LE(world.loop.now() - start, Millis(20'200));
}

}  // namespace
}  // namespace recourse
