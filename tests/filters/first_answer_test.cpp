// The first answer of a backend reaches its caller as it came, and a proven rejection is no answer
// to anybody else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "filters/status_proofs.h"
#include "tests/filters/calls.h"

namespace recourse::first_answer_test {
namespace {

using testing::HasSubstr;

const Headers kFields = {{"Content-Type", "text/html"},
                         {"Set-Cookie", "session=1"},
                         {"X-RateLimit-Remaining", "7"},
                         {"X-Own", "own"}};

// A call whose refusals are replayed for an hour.
constexpr const char* kPatientPolicy = R"(
version: 1
backends: { orders: { url: "http://orders.test:8080", hosts: [ orders.test ] } }
tools:
  orders.create:
    { match: POST orders /orders, effect: write, undo: none, reason: test, failed_ttl: 1h }
)";

CallSpec Pay() {
  CallSpec call = To("orders.test", "/pay");
  call.body = R"({"amount":5000})";
  return call;
}

// A human says yes to the call that waits.
void Approve(World& world) {
  const auto claims = world.loop.Run(world.ledger.Claims(0, 1, world.loop.executor()));
  ASSERT_TRUE(claims && !claims->empty());
  const Event& event = claims->front().event;
  const auto outcome =
      world.loop.Run(world.approvals.DecideNow({.kind = ApprovalOrder::Kind::kApprove,
                                                .operation = event.operation,
                                                .by = {"ann", {"team-finance"}},
                                                .digest = event.approval->digest,
                                                .reason = "seen",
                                                .body = {}}));
  ASSERT_TRUE(outcome.has_value());
  world.loop.RunFor(Millis(500));
}

// Fields and body as the backend sent them, and what else is there is ours.
void ExpectAsItCame(const Told& told, int status, const std::string& body) {
  EXPECT_EQ(told.status, status);
  EXPECT_EQ(told.body, body);
  EXPECT_FALSE(told.error);
  for (const auto& [name, value] : kFields) EXPECT_EQ(told.Field(name), value) << name;
}

TEST(FirstAnswerTest, AnAnswerOfUnknownOutcomePassesAndSaysWhatIsKnownBesideIt) {
  for (const int status : {206, 207, 302, 409, 500, 502, 503, 507}) {
    World world(kShopPolicy);
    world.upstream.script = {Respond(status, "<h1>oops \"</h1>", kFields)};
    const Told first = world.Call(To("orders.test", "/runs2"));
    ExpectAsItCame(first, status, "<h1>oops \"</h1>");
    EXPECT_EQ(first.Field("Recourse-Outcome"), "unknown") << status;
    EXPECT_NE(first.Field("Recourse-Event"), "");
    EXPECT_THAT(first.Field("Proxy-Status"),
                HasSubstr("recourse; received-status=" + std::to_string(status) + "; details=\""));
    const Told repeat = world.Call(To("orders.test", "/runs2"));
    EXPECT_EQ(repeat.error, ErrorCode::kOutcomeUnknown) << status;
    EXPECT_EQ(world.upstream.writes.size(), 1U) << status;
  }
}

TEST(FirstAnswerTest, WhoHoldsForAnApprovalGetsAllThatTheBackendSaid) {
  for (const int status : {201, 500}) {
    World world(kShopPolicy);
    world.StartApprovals();
    world.upstream.script = {Respond(status, "done", kFields)};
    const auto told = world.Start(Pay());
    world.loop.RunFor(Millis(100));
    Approve(world);
    ASSERT_TRUE(told->done);
    ExpectAsItCame(*told, status, "done");
  }
}

TEST(FirstAnswerTest, WhoComesBackAfterAnApprovalGetsItOnce) {
  World world(kShopPolicy);
  world.StartApprovals();
  world.upstream.script = {Respond(201, "done", kFields)};
  const auto told = world.Start(Pay());
  world.loop.RunFor(Millis(4'000));
  world.ledger.MarkAnswered({});  // any verb ends the joins of the memory ledger that are over
  ASSERT_EQ(told->status, 202);
  Approve(world);
  ExpectAsItCame(world.Call(Pay()), 201, "done");
  const Told later = world.Call(Pay());
  EXPECT_EQ(later.status, 201);
  EXPECT_EQ(later.Field("Set-Cookie"), "") << "it is not stored";
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(FirstAnswerTest, TheRepeatOfAProvenRejectionIsExecuted) {
  for (const StatusFact& fact : kStatusProofs) {
    World world(kShopPolicy);
    world.upstream.script = {Respond(fact.status, "no", kFields)};
    ExpectAsItCame(world.Call(Order()), fact.status, "no");
    EXPECT_EQ(world.Call(Order()).status, 201) << fact.status;
    EXPECT_EQ(world.upstream.writes.size(), 2U) << fact.status;
    EXPECT_EQ(world.Call(Order()).status, 201);
    EXPECT_EQ(world.upstream.writes.size(), 2U) << "and its success is replayed";
  }
}

TEST(FirstAnswerTest, FailedTtlReplaysWhatLasts) {
  for (const StatusFact& fact : kStatusProofs) {
    World world(kPatientPolicy);
    world.upstream.script = {Respond(fact.status, "no")};
    EXPECT_EQ(world.Call(Order()).status, fact.status);
    const bool lasts = fact.proof == StatusProof::kRejected;
    EXPECT_EQ(world.Call(Order()).status, lasts ? fact.status : 201) << fact.status;
    EXPECT_EQ(world.upstream.writes.size(), lasts ? 1U : 2U) << fact.status;
  }
}

TEST(FirstAnswerTest, RepeatsThatJoinedShareTheOneRefusal) {
  World world(kShopPolicy);
  world.upstream.script = {After(Millis(200), Respond(401, "log in"))};
  const auto first = world.Start(Order());
  const auto second = world.Start(Order());
  world.loop.RunFor(Millis(300));
  EXPECT_EQ(first->status, 401);
  EXPECT_EQ(second->status, 401);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Call(Order()).status, 201);
}

TEST(FirstAnswerTest, RefusalsUseUpNoAttemptsAndAreBoundedPerMinute) {
  World world(kShopPolicy);
  world.upstream.otherwise = Respond(422, "no stock");
  for (int i = 0; i <= limits::kRefusedPerMinute; ++i) {
    const Told told = world.Call(Order());
    ASSERT_EQ(told.status, 422) << i;
    ASSERT_FALSE(told.replayed) << i;
  }
  const Told held_back = world.Call(Order());
  EXPECT_EQ(held_back.status, 429);
  EXPECT_EQ(held_back.error, ErrorCode::kQuotaExceeded);
  EXPECT_GT(std::stoi(held_back.Field("Retry-After")), 0);
  EXPECT_LE(std::stoi(held_back.Field("Retry-After")), 60);
  CallSpec other = Order();
  other.body = R"({"item":"chair","amount":1})";
  EXPECT_EQ(world.Call(other).status, 422) << "another call is not held back";
  world.loop.Skip(Millis(60'000));
  world.upstream.otherwise = Respond(201, "{}");
  EXPECT_EQ(world.Call(Order()).status, 201);
  const std::size_t sent = world.upstream.writes.size();
  EXPECT_EQ(world.Call(Order()).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), sent) << "its success is found, and replayed";
}

TEST(FirstAnswerTest, WhoseCredentialsAreRefusedHoldsUpNobodyElse) {
  World world(kShopPolicy);
  CallSpec stranger = Order();
  stranger.headers.emplace_back("Authorization", "Bearer bad");
  world.upstream.otherwise = Respond(403, "no");
  int status = 0;
  for (int i = 0; i <= limits::kRefusedPerMinute + 1; ++i) status = world.Call(stranger).status;
  ASSERT_EQ(status, 429);
  CallSpec owner = Order();
  owner.headers.emplace_back("Authorization", "Bearer good");
  world.upstream.otherwise = Respond(201, "{}");
  EXPECT_EQ(world.Call(owner).status, 201);
}

TEST(FirstAnswerTest, ARedirectToTheBackendItselfComesBackHere) {
  World world(kShopPolicy);
  const auto redirect = [&](std::string location) {
    world.upstream.script = {Respond(308, "", {{"Location", std::move(location)}})};
    return world.Call(Order());
  };
  EXPECT_EQ(redirect("http://orders.test:8080/v2/orders?x").Field("Location"), "/v2/orders?x");
  const Told refused = redirect("http://payments.test:8080/api/orders");
  EXPECT_EQ(refused.status, 502);
  EXPECT_THAT(refused.body, HasSubstr("put that url in the policy"));
  EXPECT_EQ(refused.Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(redirect("/v2/orders").Field("Location"), "/v2/orders");
}

}  // namespace
}  // namespace recourse::first_answer_test
