// Writes that their backend takes on, and finishes later.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/filters/saga_shop.h"

namespace recourse::settled_by_test {
namespace {

constexpr const char* kPolicy = R"(
version: 1
backends:
  desk: { url: "http://desk.test", hosts: [ desk.test ], timeout: 60s }
tools:
  tickets.import:
    match: POST desk /imports
    effect: write
    identity: [ body#/batch ]
    external_ref: answer.body#/results/0/id
    settled_by:
      request: "GET /jobs/{answer.body#/job/id}"
      until: answer.body#/status == "completed"
      deadline: 10m
    undo: { request: "DELETE /tickets/{external_ref}" }
)";

Step Working() { return Respond(200, R"({"status":"working"})"); }
Step Completed() { return Respond(200, R"({"status":"completed","results":[{"id":"t9"}]})"); }

Told Import(World& world) {
  CallSpec call;
  call.host = "desk.test";
  call.target = "/imports";
  call.body = R"({"batch":"b1"})";
  return world.Call(call);
}

World& Begin(World& world) {
  world.upstream.otherwise = Respond(200, R"({"job":{"id":"j1"}})");
  world.upstream.probe = [](const HttpRequest&) { return Working(); };
  world.StartSettler();
  return world;
}

TEST(SettledByTest, ItRunsUntilItIsDoneAndItsRepeatsAreToldSo) {
  World world(kPolicy);
  const Told first = Import(Begin(world));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.Field("Recourse-Outcome"), "pending");
  world.loop.RunFor(Millis(30'000));
  const Told repeat = Import(world);
  EXPECT_EQ(repeat.body, first.body);
  EXPECT_EQ(repeat.Field("Recourse-Outcome"), "pending");
  EXPECT_EQ(world.Events().back().phase, Phase::kUncertain);
  ASSERT_FALSE(world.upstream.probes.empty());
  EXPECT_EQ(world.upstream.probes[0].request.target, "/jobs/j1");

  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  world.loop.RunFor(Millis(120'000));
  const Event done = world.Events().back();
  EXPECT_EQ(done.phase, Phase::kSucceeded);
  EXPECT_EQ(done.external_ref, "t9");
  ASSERT_TRUE(done.undo.has_value());
  EXPECT_EQ(done.undo->target, "/tickets/t9");
  EXPECT_FALSE(done.task.has_value());
  const Told last = Import(world);
  EXPECT_EQ(last.body, first.body);
  EXPECT_EQ(last.Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(SettledByTest, ARepeatThatWaitsGetsItAsSoonAsItIsDone) {
  World world(kPolicy);
  (void)Import(Begin(world));
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  EXPECT_EQ(Import(world).Field("Recourse-Outcome"), "executed");
}

TEST(SettledByTest, AfterItsDeadlineItIsUnknownUntilItIsFoundDone) {
  World world(kPolicy);
  (void)Import(Begin(world));
  world.loop.RunFor(Millis(11 * 60'000));
  const std::size_t asked = world.upstream.probes.size();
  world.loop.RunFor(Millis(60 * 60'000));
  EXPECT_EQ(world.upstream.probes.size(), asked) << "nothing asks any more";
  EXPECT_EQ(world.Events().back().phase, Phase::kUncertain);
  const Told told = Import(world);
  EXPECT_EQ(told.status, 409);
  EXPECT_EQ(told.error, ErrorCode::kOutcomeUnknown);
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  EXPECT_EQ(Import(world).Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(SettledByTest, ItIsAskedOfItsTenantAndUndoneThere) {
  World world(kPolicy);
  CallSpec call;
  call.host = "desk.test";
  call.target = "/imports";
  call.body = R"({"batch":"b1"})";
  call.headers = {{"X-Tenant", "b"}};
  (void)Begin(world).Call(call);
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  world.loop.RunFor(Millis(60'000));
  ASSERT_FALSE(world.upstream.probes.empty());
  const std::string* const asked = FindHeader(world.upstream.probes[0].request.headers, "X-Tenant");
  EXPECT_TRUE(asked != nullptr && *asked == "b");
  const Event done = world.Events().back();
  ASSERT_TRUE(done.undo.has_value());
  EXPECT_EQ(done.undo->headers, (Headers{{"X-Tenant", "b"}}));
}

constexpr const char* kAtItsLink = R"(
version: 1
backends:
  desk: { url: "http://desk.test/api", hosts: [ desk.test ], timeout: 60s }
tools:
  tickets.import:
    match: POST desk /imports
    effect: write
    identity: [ body#/batch ]
    settled_by: { at: answer.header.Location, until: answer.body#/status == "completed" }
    undo: none
    reason: r
)";

TEST(SettledByTest, ItIsAskedWhereTheAnswerLeads) {
  for (const char* const link : {"http://desk.test/api/jobs/7?x=1", "/api/jobs/7?x=1"}) {
    World world(kAtItsLink);
    Begin(world).upstream.otherwise = Respond(202, "{}", {{"Location", link}});
    EXPECT_EQ(Import(world).Field("Recourse-Outcome"), "pending") << link;
    world.upstream.probe = [](const HttpRequest&) { return Completed(); };
    world.loop.RunFor(Millis(60'000));
    ASSERT_FALSE(world.upstream.probes.empty()) << link;
    EXPECT_EQ(world.upstream.probes[0].request.target, "/api/jobs/7?x=1") << link;
    EXPECT_EQ(world.Events().back().phase, Phase::kSucceeded) << link;
  }
}

TEST(SettledByTest, NobodyElseIsAskedHoweverTheAnswerLeadsThere) {
  for (const char* const link :
       {"", "http://other.test/api/jobs/7", "http://desk.test:81/api/jobs/7", "//other.test/api/j",
        "http://desk.test.evil/api/jobs", "http://desk.test@evil/api/jobs", "/admin/jobs",
        "/api/../admin", "/api/%2E%2e/admin", "/api/jobs#x", "/api\\jobs", "jobs/7",
        "https://desk.test/api/jobs/7"}) {
    World world(kAtItsLink);
    Headers fields;
    if (*link != '\0') fields.emplace_back("Location", link);
    Begin(world).upstream.otherwise = Respond(202, "{}", fields);
    (void)Import(world);
    world.loop.RunFor(Millis(60'000));
    EXPECT_TRUE(world.upstream.probes.empty()) << link;
    EXPECT_EQ(world.Events().back().phase, Phase::kUncertain) << link;
    EXPECT_TRUE(world.Events().back().detail.contains("cannot be asked")) << link;
  }
}

// Says that it is done, and proves nothing.
std::vector<std::pair<std::string, Step>> NoProofs() {
  const std::string done = R"({"status":"completed","results":[{"id":"t9"}]})";
  Step cut = Completed();
  cut.answer.body_complete = false;
  Step over = Completed();
  over.answer.over_cap = true;
  return {{"cached", Respond(200, done, {{"Age", "1"}})},
          {"accepted", Respond(202, done)},
          {"somebody else's", Respond(203, done)},
          {"partial", Respond(206, done)},
          {"an error", Respond(500, done)},
          {"no right", Respond(401, done)},
          {"a page", Respond(200, done, {{"Content-Type", "text/html"}})},
          {"cut", cut},
          {"too large", over}};
}

TEST(SettledByTest, WhatIsCachedPartialOrCutSaysNothing) {
  for (const auto& [what, step] : NoProofs()) {
    World world(kPolicy);
    (void)Import(Begin(world));
    world.upstream.probe = [&](const HttpRequest&) { return step; };
    world.loop.RunFor(Millis(120'000));
    EXPECT_EQ(world.Events().back().phase, Phase::kUncertain) << what;
    EXPECT_EQ(Import(world).Field("Recourse-Outcome"), "pending") << what;
    world.upstream.probe = [](const HttpRequest&) { return Completed(); };
    world.loop.RunFor(Millis(120'000));
    EXPECT_EQ(world.Events().back().phase, Phase::kSucceeded) << what;
    EXPECT_EQ(world.Events().back().external_ref, "t9") << what;
  }
}

TEST(SettledByTest, AnAgeOfZeroIsNoAge) {
  World world(kPolicy);
  (void)Import(Begin(world));
  world.upstream.probe = [](const HttpRequest&) {
    return Respond(200, R"({"status":"completed"})", {{"Age", "0"}});
  };
  world.loop.RunFor(Millis(120'000));
  EXPECT_EQ(world.Events().back().phase, Phase::kSucceeded);
}

TEST(SettledByTest, WhatCannotBeAskedIsUnknown) {
  World world(kPolicy);
  Begin(world).upstream.otherwise = Respond(200, R"({"job":{}})");
  (void)Import(world);
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.Events().back().phase, Phase::kUncertain);
  EXPECT_TRUE(world.Events().back().detail.contains("cannot be asked"));
  EXPECT_TRUE(world.upstream.probes.empty());
}

TEST(SettledByTest, ARefusalIsOneAtOnce) {
  World world(kPolicy);
  Begin(world).upstream.otherwise = Respond(422, "{}");
  EXPECT_EQ(Import(world).status, 422);
  EXPECT_EQ(world.Events().back().phase, Phase::kRejected);
}

TEST(SettledByTest, WhatWasTakenOnBeforeTheStartIsAskedAboutFurther) {
  World world(kPolicy);
  world.upstream.otherwise = Respond(200, R"({"job":{"id":"j1"}})");
  (void)Import(world);
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  SettleWorker settle_worker({world.ledger, world.upstream, world.loop.executor(),
                              world.loop.timer(), world.loop.clock(), world.random,
                              [&world](const std::string&) { return world.policy; }});
  world.loop.Start(settle_worker.Run());
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.Events().back().phase, Phase::kSucceeded);
  settle_worker.Stop();
  world.loop.RunFor(Millis(1'000));
}

constexpr const char* kUndoneLater = R"(
version: 1
backends:
  shop: { url: "http://shop.test:8080", hosts: [ shop.test ] }
tools:
  order:
    match: POST shop /orders
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    undo:
      request: "DELETE /orders/{external_ref}"
      settled_by:
        request: "GET /jobs/{answer.body#/job}"
        until: [ answer.status == 200, answer.body#/status == "completed" ]
        deadline: 10m
)";

// An order whose undo the backend only takes on.
class UndoneLater : public Checkout {
 public:
  UndoneLater() : Checkout(DraftOf(kUndoneLater)) {
    upstream.probe = [](const HttpRequest&) { return Working(); };
    instead.emplace("DELETE", Respond(202, R"({"job":"j7"})"));
    (void)Call(Write("orders"));
    StartFlows();
    EXPECT_TRUE(Act(FlowAction::Kind::kCancel).has_value());
  }
  Event UndoRow() {
    Event found;
    for (const Event& event : Events()) {
      if (event.undoes != 0) found = event;
    }
    return found;
  }
};

TEST(UndoSettledByTest, UntilItIsDoneTheStepIsNotUndoneAndNothingIsSentAgain) {
  UndoneLater world;
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndoing);
  EXPECT_EQ(world.StepPhase(0), Phase::kSucceeded);
  EXPECT_EQ(world.UndoRow().phase, Phase::kUncertain);
  EXPECT_EQ(world.UndoRow().http_status, 202);
  ASSERT_FALSE(world.upstream.probes.empty());
  EXPECT_EQ(world.upstream.probes[0].request.target, "/jobs/j7");
  world.upstream.probe = [](const HttpRequest&) {
    return Respond(503, R"({"status":"completed"})");
  };
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndoing);
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  world.loop.RunFor(Millis(120'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.StepPhase(0), Phase::kCompensated);
  EXPECT_EQ(world.upstream.writes.size(), 2U);
}

TEST(UndoSettledByTest, ItIsAskedOfTheTenantOfTheCall) {
  Checkout world(DraftOf(kUndoneLater));
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  world.instead.emplace("DELETE", Respond(202, R"({"job":"j7"})"));
  CallSpec order = Write("orders");
  order.headers.emplace_back("X-Tenant", "b");
  (void)world.Call(order);
  world.StartFlows();
  EXPECT_TRUE(world.Act(FlowAction::Kind::kCancel).has_value());
  world.loop.RunFor(Millis(60'000));
  ASSERT_EQ(world.upstream.writes.size(), 2U);
  ASSERT_FALSE(world.upstream.probes.empty());
  for (const auto& sent : {world.upstream.writes[1], world.upstream.probes[0]}) {
    const std::string* const tenant = FindHeader(sent.request.headers, "X-Tenant");
    EXPECT_TRUE(tenant != nullptr && *tenant == "b") << sent.request.target;
  }
}

TEST(UndoSettledByTest, AfterItsDeadlineAHumanDecidesAndIsNotAskedOfOneThatIsDone) {
  UndoneLater world;
  world.loop.RunFor(Millis(11 * 60'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_TRUE(world.Flow().reason.contains("before its deadline")) << world.Flow().reason;
  const std::size_t asked = world.upstream.probes.size();
  world.loop.RunFor(Millis(60 * 60'000));
  EXPECT_EQ(world.upstream.probes.size(), asked);
  world.upstream.probe = [](const HttpRequest&) { return Completed(); };
  EXPECT_TRUE(world.Act(FlowAction::Kind::kRetry).has_value());
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
  EXPECT_EQ(world.upstream.writes.size(), 2U) << "it was done, so nothing is sent again";
}

TEST(UndoSettledByTest, WhatIsCachedPartialOrCutSaysNothing) {
  for (const auto& [what, step] : NoProofs()) {
    UndoneLater world;
    world.upstream.probe = [&](const HttpRequest&) { return step; };
    world.loop.RunFor(Millis(120'000));
    EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndoing) << what;
    EXPECT_EQ(world.StepPhase(0), Phase::kSucceeded) << what;
    world.upstream.probe = [](const HttpRequest&) { return Completed(); };
    world.loop.RunFor(Millis(120'000));
    EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone) << what;
  }
}

TEST(UndoSettledByTest, WhatIsNotItsOwnUndoIsNotAskedAbout) {
  UndoneLater world;
  world.loop.RunFor(Millis(1'000));
  const std::size_t asked = world.upstream.probes.size();
  EXPECT_GT(asked, 0U);
  world.ledger.other_key = Sha256("another call's");
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.upstream.probes.size(), asked);
  EXPECT_EQ(world.upstream.writes.size(), 2U) << "nor undone";
}

// What is deleted later is gone when nobody knows it any more.
constexpr const char* kGoneLater = R"(
version: 1
backends:
  shop: { url: "http://shop.test:8080", hosts: [ shop.test ] }
tools:
  order:
    match: POST shop /orders
    effect: write
    identity: [ body#/ref ]
    external_ref: answer.body#/id
    undo:
      request: "DELETE /orders/{external_ref}"
      settled_by: { request: GET, until: answer.status == 404 }
)";

TEST(UndoSettledByTest, AGatewaysPageIsNoProofThatAnythingIsGone) {
  Checkout world(DraftOf(kGoneLater));
  world.instead.emplace("DELETE", Respond(202, "{}"));
  world.upstream.probe = [](const HttpRequest&) {
    return Respond(404, "<html>no route</html>", {{"Content-Type", "text/html"}});
  };
  (void)world.Call(Write("orders"));
  world.StartFlows();
  ASSERT_TRUE(world.Act(FlowAction::Kind::kCancel).has_value());
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndoing);
  world.upstream.probe = [](const HttpRequest&) { return Respond(404, ""); };
  world.loop.RunFor(Millis(120'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kUndone);
}

TEST(UndoSettledByTest, WhatCannotBeAskedIsForAHuman) {
  Checkout world(DraftOf(kUndoneLater));
  world.instead.emplace("DELETE", Respond(202, "{}"));
  (void)world.Call(Write("orders"));
  world.StartFlows();
  ASSERT_TRUE(world.Act(FlowAction::Kind::kCancel).has_value());
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.PhaseOf(), FlowPhase::kNeedsHuman);
  EXPECT_TRUE(world.Flow().reason.contains("cannot be asked")) << world.Flow().reason;
}

}  // namespace
}  // namespace recourse::settled_by_test
