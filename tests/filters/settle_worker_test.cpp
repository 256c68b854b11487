// Unknown outcomes become known: by probes in the background, and when a repeat asks.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/filters/shop_policy.h"
#include "tests/support/world.h"

namespace recourse::settler_test {
namespace {

Step Present() { return Respond(200, R"({"items":[{"id":"ord_9"}]})"); }
Step Absent() { return Respond(200, R"({"items":[]})"); }

// An order whose answer is lost.
Told LoseAnswer(World& world) {
  world.upstream.script = {CutAfterSend()};
  Told told = world.Call({});
  EXPECT_EQ(told.status, 502);
  return told;
}

Phase LastPhase(World& world) { return world.Events().back().phase; }

TEST(SettlerTest, AProbeThatFindsTheEffectMakesItASuccess) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(1'000));
  const Event event = world.Events().back();
  EXPECT_EQ(event.phase, Phase::kSucceeded);
  EXPECT_EQ(event.cause, Cause::kProbePresent);
  EXPECT_EQ(event.external_ref, "ord_9");
  ASSERT_TRUE(event.undo.has_value());
  EXPECT_EQ(event.undo->target, "/orders/ord_9");
  ASSERT_EQ(world.upstream.probes.size(), 1U);
  EXPECT_EQ(world.upstream.probes[0].request.target, "/orders?item=desk");

  const Told repeat = world.Call({});
  EXPECT_EQ(repeat.status, 200);
  EXPECT_EQ(repeat.body, R"({"outcome":"executed","external_ref":"ord_9","settled_by":"probe"})");
  EXPECT_EQ(repeat.Field("Idempotent-Replayed"), "true");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(SettlerTest, WhatWasOpenAtTheStartIsSettledThoughTheLedgerCouldNotBeReadAtFirst) {
  World world(kShopPolicy);
  (void)LoseAnswer(world);
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  // Of another process: it finds the operation in the ledger or not at all.
  SettleWorker settle_worker({world.ledger, world.upstream, world.loop.executor(),
                              world.loop.timer(), world.loop.clock(), world.random,
                              [&world](const std::string&) { return world.policy; }});
  world.ledger.lists_fail = true;
  world.loop.Start(settle_worker.Run());
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  world.ledger.lists_fail = false;
  world.loop.RunFor(Millis(1'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
  settle_worker.Stop();
  world.loop.RunFor(Millis(1'000));
}

TEST(SettlerTest, WithoutRoomForAnAnswerNothingIsAskedAndLaterItIs) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  world.has_room = false;
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  EXPECT_TRUE(world.upstream.probes.empty());
  world.has_room = true;
  world.loop.RunFor(Millis(120'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
}

TEST(SettlerTest, WhatBecomesUnknownWhileTheLedgerCannotBeReadIsProbed) {
  World world(kShopPolicy);
  world.ledger.lists_fail = true;
  world.StartSettler();
  world.loop.RunFor(Millis(1'000));
  int probes = 0;
  world.upstream.probe = [&probes](const HttpRequest&) {
    return ++probes < 3 ? Respond(500, "") : Present();
  };
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
}

TEST(SettlerTest, AnOperationIsSettledByThePolicyItBeganUnder) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Respond(500, ""); };
  (void)LoseAnswer(world);
  world.older.push_back(world.policy);
  world.policy = PolicyOf(R"(
version: 1
backends: { other: { url: "http://other.test" } }
)");
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  world.loop.RunFor(Millis(5'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
}

TEST(SettlerTest, AProbeAsksByTheKeyThatTheBackendWasTold) {
  World world(kShopPolicy);
  world.StartSettler();
  CallSpec call;
  call.host = "payments.test";
  call.target = "/transfers";
  call.trace.clear();  // the window's second operation has a key of its own
  EXPECT_EQ(world.Call(call).status, 201);
  world.loop.Skip(limits::kAcrossWindow + Millis(1));
  world.upstream.script = {CutAfterSend()};
  const Told lost = world.Call(call);
  world.loop.RunFor(Millis(100));
  ASSERT_FALSE(world.upstream.probes.empty());
  EXPECT_EQ(world.upstream.probes[0].request.target,
            "/api/transfers/" + lost.Field("Idempotency-Key"));
  EXPECT_EQ(*FindHeader(world.upstream.writes.back().request.headers, "Idempotency-Key"),
            lost.Field("Idempotency-Key"));

  call.headers.emplace_back("Idempotency-Key", "mine-1");
  world.upstream.script = {CutAfterSend()};
  (void)world.Call(call);
  world.loop.RunFor(Millis(100));
  EXPECT_EQ(world.upstream.probes.back().request.target, "/api/transfers/mine-1");
}

TEST(SettlerTest, AbsenceIsProvenOnlyAfterItsTimeAndByTwoProbes) {
  World world(kShopPolicy);
  world.StartSettler();
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(4'900));
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  const std::size_t early = world.upstream.probes.size();
  EXPECT_GE(early, 2U);
  world.loop.RunFor(Millis(2'000));
  EXPECT_EQ(LastPhase(world), Phase::kProvenAbsent);
  EXPECT_GE(world.upstream.probes.size(), early + 2);

  EXPECT_EQ(world.Call({}).status, 201) << "a repeat is a new attempt";
  EXPECT_EQ(world.upstream.writes.size(), 2U);
  EXPECT_EQ(world.Events().back().attempt, 2);
}

TEST(SettlerTest, AnEffectThatArrivesLateIsFound) {
  World world(kShopPolicy);
  world.StartSettler();
  const MonoTime arrives = world.loop.now() + Millis(4'000);
  world.upstream.probe = [&world, arrives](const HttpRequest&) {
    return world.loop.now() < arrives ? Absent() : Present();
  };
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(8'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(SettlerTest, ProbesThatTellNothingLeaveTheOutcomeUnknown) {
  for (const Step& step : {Respond(500, "{}"), Respond(200, "<html>"), CutAfterSend(), Hang(),
                           Respond(200, R"({"error":"later"})")}) {
    World world(kShopPolicy);
    world.StartSettler();
    world.upstream.probe = [&step](const HttpRequest&) { return step; };
    (void)LoseAnswer(world);
    world.loop.RunFor(Millis(600'000));
    EXPECT_EQ(LastPhase(world), Phase::kUncertain);
    EXPECT_GT(world.upstream.probes.size(), 8U);
    EXPECT_LT(world.upstream.probes.size(), 40U) << "the pauses grow";
  }
}

TEST(SettlerTest, ARepeatAsksAtOnceAndGetsTheSettledAnswer) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Respond(500, ""); };
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(100'000));  // probes are rare by now
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  const std::size_t before = world.upstream.probes.size();
  const auto repeat = world.Start({});
  world.loop.RunFor(Millis(0));
  ASSERT_TRUE(repeat->done);
  EXPECT_EQ(repeat->status, 200);
  EXPECT_EQ(world.upstream.probes.size(), before + 1);
}

TEST(SettlerTest, ManyRepeatsShareOneProbe) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Respond(500, ""); };
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(100'000));
  world.upstream.probe = [](const HttpRequest&) { return After(Millis(200), Present()); };
  const std::size_t before = world.upstream.probes.size();
  std::vector<std::shared_ptr<Told>> repeats;
  for (int i = 0; i < 200; ++i) repeats.push_back(world.Start({}));
  world.loop.RunFor(Millis(300));
  for (const auto& repeat : repeats) {
    ASSERT_TRUE(repeat->done);
    EXPECT_EQ(repeat->status, 200);
  }
  EXPECT_EQ(world.upstream.probes.size(), before + 1);
}

TEST(SettlerTest, ARepeatWaitsNoLongerThanItsHold) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Hang(); };
  (void)LoseAnswer(world);
  const MonoTime start = world.loop.now();
  const Told repeat = world.Call({});
  EXPECT_EQ(repeat.status, 409);
  EXPECT_EQ(repeat.error, ErrorCode::kOutcomeUnknown);
  EXPECT_LE(world.loop.now() - start, limits::kHold + limits::kSettleTick * 2);
}

TEST(SettlerTest, ARepeatIsToldAtOnceWhenTheProbeCannotTell) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Respond(500, ""); };
  (void)LoseAnswer(world);
  world.loop.RunFor(Millis(100'000));
  const auto repeat = world.Start({});
  world.loop.RunFor(Millis(0));
  ASSERT_TRUE(repeat->done);
  EXPECT_EQ(repeat->error, ErrorCode::kOutcomeUnknown);
}

TEST(SettlerTest, WhatWasOpenAtTheStartIsSettled) {
  World world(kShopPolicy);
  (void)LoseAnswer(world);  // nobody probes yet
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  world.StartSettler();
  world.loop.RunFor(Millis(1'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
}

TEST(SettlerTest, AToolThatIsInNoPolicyLeftLeavesItsOutcomesUnknown) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.script = {Hang()};
  const auto told = world.Start({});
  world.policy = PolicyOf(R"(
version: 1
backends:
  orders: { url: "http://orders.test:8080", hosts: [ orders.test ] }
)");
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  world.loop.RunFor(Millis(200'000));
  EXPECT_TRUE(told->done);
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  EXPECT_TRUE(world.upstream.probes.empty());
}

TEST(SettlerTest, OneBackendThatHangsDoesNotHoldUpTheOthers) {
  const std::string yaml = std::string(kShopPolicy) + R"(
  wallets.pay:
    match: POST wallets /pay
    effect: write
    undo: none
    reason: test
    settle: { request: "GET /pay/{key}", happened: "answer.body#/id", absent_after: 5s }
)";
  World world(yaml);
  world.StartSettler();
  for (int i = 0; i < 20; ++i) {
    world.upstream.script = {CutAfterSend()};
    CallSpec call;
    call.body = R"({"item":"desk)" + std::to_string(i) + R"("})";
    EXPECT_EQ(world.Call(call).status, 502);
  }
  world.upstream.probe = [](const HttpRequest& request) {
    return request.target.starts_with("/pay/") ? Respond(200, R"({"id":"w1"})") : Hang();
  };
  world.upstream.script = {CutAfterSend()};
  CallSpec wallet;
  wallet.host = "wallets.test";
  wallet.target = "/pay";
  EXPECT_EQ(world.Call(wallet).status, 502);
  world.loop.RunFor(Millis(2'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
}

TEST(SettlerTest, ManyUnknownsOfOneBackendAreSettledAsFastAsItAnswersTwoAtATime) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return After(Millis(10), Present()); };
  constexpr int kMany = 200;
  for (int i = 0; i < kMany; ++i) {
    world.upstream.script = {CutAfterSend()};
    CallSpec call;
    call.body = R"({"item":"desk)" + std::to_string(i) + R"("})";
    EXPECT_EQ(world.Call(call).status, 502);
  }
  world.loop.RunFor(Millis(500));
  EXPECT_LE(world.upstream.probes.size(), 102U) << "two at a time";
  world.loop.RunFor(Millis(700));
  const std::vector<Phase> phases = world.Phases();
  EXPECT_EQ(std::count(phases.begin(), phases.end(), Phase::kSucceeded), kMany);
}

TEST(SettlerTest, AcceptedCallsAreSettledByPresenceAndNeverByAbsence) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.script = {Respond(202, R"({"job":7})")};
  const Told first = world.Call({});
  EXPECT_EQ(first.status, 202);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "pending");
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  EXPECT_EQ(world.Call({}).body, first.body);
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  world.loop.RunFor(Millis(120'000));
  EXPECT_EQ(LastPhase(world), Phase::kSucceeded);
  const Told repeat = world.Call({});
  EXPECT_EQ(repeat.status, 202) << "what was told as a success stays the answer";
  EXPECT_EQ(repeat.body, first.body);
  EXPECT_EQ(repeat.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(SettlerTest, WhenTheLedgerFailsTheSettlerStopsTrying) {
  World world(kShopPolicy);
  world.StartSettler();
  (void)LoseAnswer(world);
  world.ledger.record_fails = true;
  world.upstream.probe = [](const HttpRequest&) { return Present(); };
  world.loop.RunFor(Millis(600'000));
  EXPECT_EQ(LastPhase(world), Phase::kUncertain);
  EXPECT_LE(world.upstream.probes.size(), 2U);
}

TEST(SettlerTest, StopTellsWaitingRepeatsAndEnds) {
  World world(kShopPolicy);
  world.StartSettler();
  world.upstream.probe = [](const HttpRequest&) { return Hang(); };
  (void)LoseAnswer(world);
  const auto repeat = world.Start({});
  world.settle_worker.Stop();
  world.loop.RunFor(Millis(200));
  EXPECT_TRUE(repeat->done);
  world.loop.RunFor(limits::kProbeTimeout + Millis(1'000));
  EXPECT_EQ(world.loop.running(), 0U);
}

TEST(SettleWorkerTest, APatchThatIsSetBackIsUndoableThoughItsCallIsGone) {
  for (const bool sets_more : {false, true}) {
    World world(R"(
version: 1
backends: { desk: { url: "http://desk.test", hosts: [ desk.test ] } }
tools:
  close:
    match: PATCH desk /tickets/{id}
    effect: write
    identity: [ path.id, body#/state ]
    settle: { request: "GET /tickets/{path.id}", happened: answer.body#/closed }
    undo: { request: "PATCH /tickets/{path.id}", json: { state: open } }
)");
    CallSpec call;
    call.method = "PATCH";
    call.host = "desk.test";
    call.target = "/tickets/7";
    call.body = sets_more ? R"({"state":"closed","note":"x"})" : R"({"state":"closed"})";
    world.upstream.otherwise = CutAfterSend();
    world.upstream.probe = [](const HttpRequest&) { return Respond(200, R"({"closed":true})"); };
    world.StartSettler();
    (void)world.Call(call);
    world.loop.RunFor(Millis(60'000));
    const Event found = world.Events().back();
    EXPECT_EQ(found.phase, Phase::kSucceeded);
    ASSERT_FALSE(world.upstream.probes.empty());
    for (const auto& [name, value] : world.upstream.probes[0].request.headers) {
      EXPECT_FALSE(value.contains("/state")) << name;
    }
    ASSERT_EQ(found.undo.has_value(), !sets_more) << found.detail;
    if (found.undo) EXPECT_EQ(found.undo->body, R"({"state":"open"})");
  }
}

}  // namespace
}  // namespace recourse::settler_test
