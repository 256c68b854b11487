// Calls that wait for a human, over the whole chain in virtual time: what agents are told, what is
// sent, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "filters/approval/approved_call.h"
#include "filters/call/poll_token.h"
#include "proxy/base/json/json.h"
#include "proxy/base/limits.h"
#include "tests/support/world.h"

namespace recourse::approval_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using OrderKind = ApprovalOrder::Kind;
using Ruling = ApprovalRuling::Kind;

constexpr const char* kPolicy = R"(
version: 1
unlisted: { reads: pass, writes: guard }
backends:
  bank: { url: "http://bank.test:8080/api", hosts: [ bank.test ] }
tools:
  bank.pay:
    match: POST bank /accounts/{account}/pay
    effect: write
    identity: [ body#/order ]
    external_ref: answer.body#/id
    undo: { request: "DELETE /payments/{external_ref}" }
    approval: { by: [ finance ], expires: 10m, when: "body#/amount > 1000" }
  bank.sign:
    match: POST bank /sign
    effect: write
    undo: none
    approval: { by: [ finance ], needs: 2, answer: 409, should_retry: false, hold: 0s }
  bank.note:
    match: POST bank /note
    effect: write
    breaks_flow: on_failure
    undo: none
    reason: harmless
)";

class ApprovalTest : public testing::Test {
 protected:
  ApprovalTest() : world(kPolicy) { world.StartApprovals(); }

  static CallSpec Pay(int amount = 5'000, std::string order = "o1") {
    CallSpec call;
    call.host = "bank.test";
    call.target = "/accounts/a%20b/pay?fast=1";
    call.body = R"({"order":")" + order + R"(","amount":)" + std::to_string(amount) + "}";
    call.headers = {{"Authorization", "Bearer of-the-agent"}};
    return call;
  }
  static CallSpec To(std::string target) {
    CallSpec call;
    call.host = "bank.test";
    call.target = std::move(target);
    return call;
  }
  // Makes a call and lets time pass until it is answered. The ledger in memory looks at its clock
  // when it is asked something.
  Told Call(const CallSpec& spec) {
    const auto told = world.Start(spec);
    for (int i = 0; !told->done && i < 50; ++i) {
      world.loop.RunFor(Millis(100));
      (void)Claims();
    }
    EXPECT_TRUE(told->done);
    return *told;
  }
  std::vector<PendingApproval> Claims() {
    auto claims = world.loop.Run(world.ledger.Claims(0, 100, world.loop.executor()));
    RC_CHECK(claims.has_value());
    return *claims;
  }
  Event Latest(std::uint64_t operation) {
    auto event = world.loop.Run(world.ledger.Read(operation, world.loop.executor()));
    RC_CHECK(event.has_value());
    return *event;
  }
  // What operators are told of a call that waits or was approved.
  std::string Detail(std::uint64_t operation) {
    return world.loop.Run(world.approvals.ReadNow(operation)).value().detail;
  }
  ApprovalOutcome Say(OrderKind kind, std::string who = "ann",
                      std::optional<std::string> body = {}) {
    const PendingApproval claim = Claims().at(0);
    auto outcome = world.loop.Run(world.approvals.DecideNow({.kind = kind,
                                                             .operation = claim.event.operation,
                                                             .by = {std::move(who), {"finance"}},
                                                             .digest = claim.event.approval->digest,
                                                             .reason = "seen",
                                                             .body = std::move(body)}));
    RC_CHECK(outcome.has_value());
    return *outcome;
  }

  World world;
};

TEST_F(ApprovalTest, WhoHoldsGetsTheAnswerAsSoonAsAHumanApproves) {
  const auto told = world.Start(Pay());
  world.loop.RunFor(Millis(1'000));
  EXPECT_FALSE(told->done);
  EXPECT_TRUE(world.upstream.writes.empty());
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(500));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->status, 201);
  EXPECT_EQ(told->body, R"({"id":"ord_1"})");
  EXPECT_EQ(told->Field("Recourse-Outcome"), "executed");
  EXPECT_EQ(told->Field("Idempotent-Replayed"), "") << "it is the first to be told";
  ASSERT_EQ(world.upstream.writes.size(), 1U);
  const HttpRequest& sent = world.upstream.writes[0].request;
  EXPECT_EQ(sent.target, "/api/accounts/a%20b/pay?fast=1");
  EXPECT_EQ(sent.body, Pay().body);
  EXPECT_EQ(*FindHeader(sent.headers, "Authorization"), "Bearer of-the-agent");
  EXPECT_THAT(*FindHeader(sent.headers, "traceparent"), HasSubstr(kTraceA));
  EXPECT_THAT(world.Phases(), ElementsAre(Phase::kClaimed, Phase::kApproved, Phase::kDispatching,
                                          Phase::kSucceeded));
  EXPECT_TRUE(world.Events().back().undo) << "the undo is rendered as for every other call";
}

TEST_F(ApprovalTest, WhoeverWaitedForLongEnoughIsToldHowToAskAgain) {
  const Told told = Call(Pay());
  EXPECT_EQ(told.status, 202);
  EXPECT_EQ(told.Field("Retry-After"), "5");
  EXPECT_EQ(told.Field("Recourse-Outcome"), "pending");
  const auto body = ParseJson(told.body);
  ASSERT_TRUE(body);
  EXPECT_EQ(body->Find("status")->text, "pending_approval");
  EXPECT_THAT(body->Find("message")->text, HasSubstr("Do not change its arguments"));
  const std::string location = told.Field("Location");
  ASSERT_TRUE(location.starts_with(kPollPath));
  const std::size_t query = location.find('?');
  ASSERT_NE(query, std::string::npos);
  const std::string id = location.substr(kPollPath.size(), query - kPollPath.size());
  const std::string secret = "secret of this ledger";
  EXPECT_EQ(ReadPollId(secret, id, "agent-1"), Claims().at(0).event.operation);
  EXPECT_FALSE(ReadPollId(secret, id, "agent-2")) << "it is of its caller alone";
  EXPECT_FALSE(ReadPollId("another secret", id, "agent-1"));
  EXPECT_FALSE(ReadPollId(secret, "1" + id, "agent-1"));
  EXPECT_FALSE(ReadPollId(secret, "", "agent-1"));
  const Event asked = Claims().at(0).event;
  const std::string of = location.substr(query);
  EXPECT_TRUE(IsPollOf(secret, of, asked.operation, asked.key));
  EXPECT_TRUE(IsPollOf(secret, "", asked.operation, asked.key)) << "an earlier version gave it";
  EXPECT_FALSE(IsPollOf(secret, of, asked.operation, Sha256("another call's")));
  EXPECT_FALSE(IsPollOf(secret, of, asked.operation + 1, asked.key));
  EXPECT_FALSE(IsPollOf("another secret", of, asked.operation, asked.key));
  EXPECT_EQ(told.body.find("finance"), std::string::npos) << "who decides is nothing for agents";
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(500));
  const Told again = Call(Pay());
  EXPECT_EQ(again.status, 201);
  EXPECT_EQ(again.Field("Idempotent-Replayed"), "true");
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST_F(ApprovalTest, ARepeatWhileItWaitsIsNoSecondQuestion) {
  const auto first = world.Start(Pay());
  const auto second = world.Start(Pay());
  world.loop.RunFor(Millis(100));
  EXPECT_EQ(Claims().size(), 1U);
  EXPECT_EQ(world.approval_news.size(), 1U);
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(500));
  EXPECT_EQ(first->status, 201);
  EXPECT_EQ(second->status, 201);
  EXPECT_EQ(first->body, second->body);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST_F(ApprovalTest, OnlyTheCallsThatTheConditionsMeanWait) {
  EXPECT_EQ(Call(Pay(1'000)).status, 201);
  CallSpec unclear = Pay(1, "o2");
  unclear.body = R"({"order":"o2","amount":"1"})";
  EXPECT_EQ(Call(unclear).status, 202) << "what cannot be judged needs a human";
  CallSpec claims_it = Pay(5'000, "o3");
  claims_it.headers.emplace_back("X-Approved", "yes, by the admin");
  claims_it.headers.emplace_back("Recourse-Approved", "1");
  EXPECT_EQ(Call(claims_it).status, 202);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.approval_news.at(0).approval->why,
            "body#/amount > 1000 (cannot be evaluated on this call)");
}

TEST_F(ApprovalTest, ATypedClientGetsAConflictAndNoHold) {
  const auto told = world.Start(To("/sign"));
  world.loop.RunFor(Millis(50));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->status, 409);
  EXPECT_EQ(told->error, ErrorCode::kApprovalPending);
  EXPECT_EQ(told->Field("x-should-retry"), "false");
  EXPECT_TRUE(told->Field("Location").starts_with(kPollPath));
  EXPECT_EQ(Say(OrderKind::kApprove, "ann").event.phase, Phase::kClaimed);
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(Say(OrderKind::kApprove, "bob").event.phase, Phase::kApproved);
  world.loop.RunFor(Millis(500));
  EXPECT_EQ(Call(To("/sign")).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST_F(ApprovalTest, ARejectionIsToldWithItsReason) {
  const auto told = world.Start(Pay());
  world.loop.RunFor(Millis(100));
  Say(OrderKind::kReject);
  world.loop.RunFor(Millis(100));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->status, 403);
  EXPECT_EQ(told->error, ErrorCode::kApprovalRejected);
  EXPECT_THAT(told->body, HasSubstr("rejected by ann: seen"));
  EXPECT_EQ(told->Field("Recourse-Outcome"), "rejected");
  EXPECT_EQ(Call(Pay()).error, ErrorCode::kApprovalRejected);
  EXPECT_EQ(world.upstream.opened, 0U);
}

TEST_F(ApprovalTest, NobodysAnswerIsNoYesAndTheCallMayBeAskedAgain) {
  Call(Pay());
  const std::uint64_t operation = Claims().at(0).event.operation;
  world.loop.RunFor(Millis(10 * 60'000));
  EXPECT_TRUE(Claims().empty());
  EXPECT_EQ(Latest(operation).phase, Phase::kExpired);
  EXPECT_EQ(Call(Pay()).status, 202);
  EXPECT_NE(Claims().at(0).event.operation, operation);
  EXPECT_EQ(world.upstream.opened, 0U);
}

TEST_F(ApprovalTest, AnEditedCallIsSentInsteadAndAnswersItsOriginal) {
  Call(Pay());
  Say(OrderKind::kApprove, "ann", R"({"order":"o1","amount":50})");
  world.loop.RunFor(Millis(500));
  ASSERT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.upstream.writes[0].request.body, R"({"order":"o1","amount":50})");
  const Told again = Call(Pay());
  EXPECT_EQ(again.status, 201);
  EXPECT_EQ(again.replayed, true);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST_F(ApprovalTest, AnEditKeepsTheKindOfItsBody) {
  Call(Pay());
  const Event event = Claims().at(0).event;
  EXPECT_EQ(ObjectionToEdit(event, R"({"order":"o1"})", *world.policy), "");
  EXPECT_THAT(ObjectionToEdit(event, "{", *world.policy), HasSubstr("cannot be read"));
  EXPECT_THAT(ObjectionToEdit(event, R"({"a":1,"a":2})", *world.policy),
              HasSubstr("cannot be read"));
  EXPECT_THAT(ObjectionToEdit(event, "", *world.policy), HasSubstr("same kind"));
}

TEST_F(ApprovalTest, AnotherPolicyVoidsWhatWaits) {
  const auto told = world.Start(Pay());
  world.loop.RunFor(Millis(100));
  world.older.push_back(world.policy);
  world.policy = PolicyOf(std::string(kPolicy) + "# changed\n");
  world.approvals.PolicyChanged();
  world.loop.RunFor(Millis(200));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->status, 409);
  EXPECT_EQ(told->error, ErrorCode::kApprovalVoid);
  const auto again = world.Start(Pay());
  world.loop.RunFor(Millis(100));
  EXPECT_FALSE(again->done);
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(500));
  EXPECT_EQ(again->status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST_F(ApprovalTest, AFlowThatBreaksTakesItsQuestionsBack) {
  Call(To("/note"));
  const auto told = world.Start(Pay());
  world.loop.RunFor(Millis(100));
  world.upstream.script.push_back(Respond(400, "{}"));
  CallSpec failing = To("/note");
  failing.body = R"({"item":"other"})";
  Call(failing);
  world.loop.RunFor(Millis(100));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->error, ErrorCode::kApprovalExpired);
  EXPECT_THAT(told->body, HasSubstr("its flow takes no further writes"));
}

TEST_F(ApprovalTest, AFailedDispatchIsNotRepeatedWithoutAnotherApproval) {
  const auto told = world.Start(Pay());
  world.loop.RunFor(Millis(100));
  for (int i = 0; i < limits::kUnsentAttemptsMax; ++i) {
    world.upstream.script.push_back(RefuseConnection());
  }
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(2'000));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->error, ErrorCode::kNotSent);
  EXPECT_EQ(Call(Pay()).status, 202) << "asked anew";
  EXPECT_TRUE(world.upstream.writes.empty());
}

TEST_F(ApprovalTest, ALedgerThatRefusesForAWhileDelaysItsDispatch) {
  Call(Pay());
  const std::uint64_t operation = Claims().at(0).event.operation;
  world.ledger.begin_fails = true;
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(3'000));
  EXPECT_EQ(Latest(operation).phase, Phase::kApproved);
  EXPECT_TRUE(world.upstream.writes.empty());
  world.ledger.begin_fails = false;
  world.loop.RunFor(Millis(3'000));
  EXPECT_EQ(Latest(operation).phase, Phase::kSucceeded);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST_F(ApprovalTest, ARequestTooLargeToBeKeptIsRefused) {
  CallSpec call = Pay();
  call.body = R"({"order":"o1","amount":5000,"text":")" +
              std::string(limits::kStoredRequestBodyBytesMax, 'x') + "\"}";
  const Told told = Call(call);
  EXPECT_EQ(told.status, 413);
  EXPECT_TRUE(world.Events().empty());
}

class ApprovalCredentialsTest : public ApprovalTest {
 protected:
  ApprovalCredentialsTest() {
    auto& tools = const_cast<Policy&>(*world.policy).tools;
    tools.at(0).approval->secrets = {{"authorization", "/run/secrets/bank", "Bearer "}};
    world.read_secret = [this](const std::string& file) -> std::expected<std::string, std::string> {
      if (secret.empty()) return std::unexpected("cannot open " + file);
      return secret;
    };
  }
  std::vector<std::string> Authorizations() {
    std::vector<std::string> values;
    for (const auto& [name, value] : world.upstream.writes.at(0).request.headers) {
      if (EqualsIgnoreCase(name, "Authorization")) values.push_back(value);
    }
    return values;
  }

  std::string secret = "first";
};

TEST_F(ApprovalCredentialsTest, AnApprovedCallIsSentWithTheSecretOfItsFileInPlaceOfTheAgents) {
  const auto told = world.Start(Pay());
  secret = "rotated";
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(1'000));
  ASSERT_TRUE(told->done);
  EXPECT_EQ(told->status, 201);
  EXPECT_THAT(Authorizations(), ElementsAre("Bearer rotated"));
  for (const Event& event : world.Events()) {
    EXPECT_EQ(event.detail.find("rotated"), std::string::npos);
    if (!event.request) continue;
    for (const auto& [name, value] : event.request->headers) {
      EXPECT_EQ(value.find("rotated"), std::string::npos) << name;
    }
  }
}

TEST_F(ApprovalCredentialsTest, ACallThatNeedsNoHumanKeepsTheAgentsOwn) {
  EXPECT_EQ(Call(Pay(10)).status, 201);
  EXPECT_THAT(Authorizations(), ElementsAre("Bearer of-the-agent"));
}

TEST_F(ApprovalCredentialsTest, AnEditedCallIsSentWithItToo) {
  Call(Pay());
  Say(OrderKind::kApprove, "ann", R"({"order":"o1","amount":4000})");
  world.loop.RunFor(Millis(1'000));
  EXPECT_THAT(Authorizations(), ElementsAre("Bearer first"));
  EXPECT_THAT(world.upstream.writes.at(0).request.body, HasSubstr("4000"));
}

TEST_F(ApprovalCredentialsTest, WithoutItsFileTheCallWaitsAndOperatorsSeeWhy) {
  secret.clear();
  Call(Pay());
  const std::uint64_t operation = Claims().at(0).event.operation;
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(60'000));
  EXPECT_TRUE(world.upstream.writes.empty());
  const Event approved = Latest(operation);
  EXPECT_EQ(approved.phase, Phase::kApproved) << "its approval is not used up";
  EXPECT_EQ(approved.detail, "approved by ann: seen");
  EXPECT_EQ(Detail(operation),
            "approved by ann: seen; not sent yet: its credential authorization: cannot open "
            "/run/secrets/bank");
  secret = "mounted late";
  world.loop.RunFor(Millis(2'000));
  EXPECT_EQ(Latest(operation).phase, Phase::kSucceeded);
  EXPECT_THAT(Authorizations(), ElementsAre("Bearer mounted late"));
}

TEST_F(ApprovalCredentialsTest, WhatWasApprovedInTheLastMomentIsSentAllTheSame) {
  secret.clear();
  Call(Pay());
  const PendingApproval claim = Claims().at(0);
  world.loop.RunFor(claim.left - Millis(1));
  ASSERT_EQ(Say(OrderKind::kApprove).kind, ApprovalRuling::Kind::kTaken);
  world.loop.RunFor(Millis(5'000));
  EXPECT_EQ(Latest(claim.event.operation).phase, Phase::kApproved);
  secret = "mounted late";
  world.loop.RunFor(Millis(2'000));
  EXPECT_EQ(Latest(claim.event.operation).phase, Phase::kSucceeded);
  EXPECT_THAT(Authorizations(), ElementsAre("Bearer mounted late"));
}

TEST_F(ApprovalCredentialsTest, ASecretThatIsNoFieldValueIsNotSent) {
  secret = "a\r\nX-Evil: 1";
  Call(Pay());
  const std::uint64_t operation = Claims().at(0).event.operation;
  Say(OrderKind::kApprove);
  world.loop.RunFor(Millis(2'000));
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_THAT(Detail(operation), HasSubstr("/run/secrets/bank has control characters"));
}

TEST_F(ApprovalCredentialsTest, WhatHasNoCredentialUntilItsTimeIsOverIsNeverSent) {
  secret.clear();
  Call(Pay());
  const std::uint64_t operation = Claims().at(0).event.operation;
  Say(OrderKind::kApprove);
  for (int minute = 0; minute < 12; ++minute) {
    world.loop.RunFor(Millis(60'000));
    (void)Claims();
  }
  const Event over = Latest(operation);
  EXPECT_EQ(over.phase, Phase::kExpired);
  EXPECT_EQ(over.detail,
            "its time ran out before it could be sent: a credential that the policy names could "
            "not be read");
  secret = "too late";
  EXPECT_EQ(Call(Pay()).status, 202) << "it is asked anew";
  EXPECT_TRUE(world.upstream.writes.empty());
}

// What waits first, past the runner.
void Approve(World& world) {
  const auto claims = world.loop.Run(world.ledger.Claims(0, 10, world.loop.executor()));
  const Event& event = claims->at(0).event;
  for (const char* who : {"ann", "bob"}) {
    const auto outcome = world.loop.Run(world.ledger.Decide({.kind = OrderKind::kApprove,
                                                             .operation = event.operation,
                                                             .by = {who, {"finance"}},
                                                             .digest = event.approval->digest,
                                                             .policy = world.policy->digest},
                                                            world.loop.executor()));
    ASSERT_EQ(outcome->kind, Ruling::kTaken);
  }
}

TEST(ApprovalRunnerTest, WhatWasApprovedWaitsForRoomAndIsSentOnce) {
  World world(kPolicy);
  world.has_room = false;
  CallSpec call;
  call.host = "bank.test";
  call.target = "/sign";
  (void)world.Start(call);
  Approve(world);
  world.StartApprovals();
  world.loop.RunFor(Millis(5'000));
  EXPECT_TRUE(world.upstream.writes.empty());
  world.has_room = true;
  world.loop.RunFor(Millis(5'000));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Call(call).status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
}

TEST(ApprovalRunnerTest, WhatWasApprovedBeforeTheStartIsSentOnceAtTheStart) {
  World world(kPolicy);
  CallSpec call;
  call.host = "bank.test";
  call.target = "/sign";
  (void)world.Start(call);
  Approve(world);
  EXPECT_TRUE(world.upstream.writes.empty());
  world.StartApprovals();
  world.loop.RunFor(Millis(500));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  world.loop.RunFor(Millis(60'000));
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(world.Call(call).status, 201);
}

}  // namespace
}  // namespace recourse::approval_test
