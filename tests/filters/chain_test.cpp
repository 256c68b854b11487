// The whole chain: what is one call, what is another, and what is refused.
#include <gtest/gtest.h>

#include "tests/filters/calls.h"
#include "tests/filters/saga_shop.h"

namespace recourse::chain_test {
namespace {

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
  world.ledger.MarkAnswered({});  // any verb ends the joins of the memory ledger that are over
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

TEST(ChainTest, OnlyTheAnswerOfTheLastAttemptMakesTheIntentANewCall) {
  World world(kShopPolicy);
  world.upstream.script = {Respond(422, R"({"error":"no stock"})")};
  const Told refused = world.Call(UnderTrace(kTraceA));
  world.loop.Skip(limits::kFailedTtl + Millis(1));
  const Told done = world.Call(UnderTrace(kTraceA));
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  world.Deliver(refused);  // its worker was slow
  EXPECT_TRUE(world.Call(UnderTrace(kTraceB)).replayed);
  world.Deliver(done);
  EXPECT_FALSE(world.Call(UnderTrace("22222222222222222222222222222222")).replayed);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

TEST(ChainTest, AReplayThatWasDeliveredBeforeIsNotMarkedAgain) {
  World world(kShopPolicy);
  const Told first = world.Call(UnderTrace(kTraceA));
  const Told replay = world.Call(UnderTrace(kTraceA));
  ASSERT_TRUE(first.answers);
  EXPECT_EQ(replay.answers, first.answers);  // the first answer may have been lost
  world.Deliver(replay);
  const Told again = world.Call(UnderTrace(kTraceA));
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.body, first.body);
  EXPECT_FALSE(again.answers);
}

TEST(ChainTest, AcrossTracesNeverKeepsTracesApart) {
  World world(kShopPolicy);
  CallSpec call = To("orders.test", "/once");
  (void)world.Call(call);
  call.trace = kTraceB;
  (void)world.Call(call);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(ChainTest, WithoutATraceOnlyACallThatWasNotAnsweredIsRepeatedAndNotForLong) {
  World world(kShopPolicy);
  const Told first = world.Call(UnderTrace(""));
  world.loop.Skip(limits::kAcrossWindow - Millis(1));
  EXPECT_TRUE(world.Call(UnderTrace("")).replayed);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  world.loop.Skip(Millis(2));
  const Told later = world.Call(UnderTrace(""));
  EXPECT_FALSE(later.replayed);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_NE(later.Field("Idempotency-Key"), first.Field("Idempotency-Key"));
  world.Deliver(later);
  EXPECT_FALSE(world.Call(UnderTrace("")).replayed);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

TEST(ChainTest, WithoutATraceEqualIdentitiesAreOneCallWithinTheWindow) {
  const auto policy = DraftOf(kShopPolicy);
  ToolOf(*policy, "orders.create").identity = {*ParseSelector("body#/item")};
  World world(policy);
  world.Deliver(world.Call(UnderTrace("")));
  world.loop.Skip(limits::kDedupeWindow - Millis(1));
  EXPECT_TRUE(world.Call(UnderTrace("")).replayed);
  world.loop.Skip(Millis(2));
  EXPECT_FALSE(world.Call(UnderTrace("")).replayed);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(ChainTest, TheNextOperationOfAWindowGoesUpstreamUnderAKeyOfItsOwn) {
  World world(kShopPolicy);
  CallSpec call = To("payments.test", "/charges");
  call.trace.clear();
  const Told first = world.Call(call);
  world.loop.Skip(limits::kAcrossWindow + Millis(1));
  const Told second = world.Call(call);
  ASSERT_EQ(world.upstream.writes.size(), 2U);
  const auto key = [&](std::size_t i) {
    return *FindHeader(world.upstream.writes[i].request.headers, "Idempotency-Key");
  };
  EXPECT_EQ(key(0), first.Field("Idempotency-Key"));
  EXPECT_EQ(key(1), second.Field("Idempotency-Key"));
  EXPECT_NE(key(0), key(1));
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

}  // namespace
}  // namespace recourse::chain_test
