// What a human's word means for a call that waits: who may say it, about what, until when.
#include "filters/ledger/model/approval.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rows/event_sections.h"
#include "proxy/base/limits.h"
#include "tests/ledger/ledger_test_support.h"

namespace recourse::approval_test {
namespace {

using testing::HasSubstr;
using OrderKind = ApprovalOrder::Kind;
using Ruling = ApprovalRuling::Kind;

const Digest kPolicy = DigestOf("the policy");

RenderedRequest MailRequest() {
  return {"POST", "/send", {{"Content-Type", "application/json"}}, R"({"to":"ada"})"};
}

Event Waiting(int needed = 1) {
  Event event;
  event.operation = event.id = 7;
  event.phase = Phase::kClaimed;
  event.backend = "mail";
  event.caller = "agent-1";
  event.request = MailRequest();
  event.approval = ApprovalFacts{.needed = static_cast<std::uint16_t>(needed),
                                 .by = {"team-support", "eve"},
                                 .expires_ms = 60'000,
                                 .policy = kPolicy,
                                 .digest = RequestDigest("mail", MailRequest()),
                                 .why = "always"};
  return event;
}

ApprovalOrder Order(OrderKind kind, std::string who = "ann") {
  return {.kind = kind,
          .operation = 7,
          .by = {std::move(who), {"team-support"}},
          .digest = RequestDigest("mail", MailRequest()),
          .policy = kPolicy,
          .reason = "seen"};
}

TEST(ApprovalOrderTest, WhoIsNamedOrInAGroupMayApprove) {
  ApprovalOrder order = Order(OrderKind::kApprove);
  ApprovalRuling ruling = JudgeOrder(order, Waiting(), false);
  EXPECT_EQ(ruling.kind, Ruling::kTaken);
  EXPECT_EQ(ruling.to, Phase::kApproved);
  EXPECT_THAT(ruling.text, HasSubstr("approved by ann: seen"));
  order.by = {"eve", {}};
  EXPECT_EQ(JudgeOrder(order, Waiting(), false).to, Phase::kApproved);
  order.by = {"mallory", {"team-other", "Team-Support"}};
  ruling = JudgeOrder(order, Waiting(), false);
  EXPECT_EQ(ruling.kind, Ruling::kNotAllowed);
  EXPECT_FALSE(ruling.to || ruling.is_noted);
}

TEST(ApprovalOrderTest, TheCallerCanNeverApproveItsOwnCall) {
  ApprovalOrder order = Order(OrderKind::kApprove, "agent-1");
  EXPECT_EQ(JudgeOrder(order, Waiting(), false).kind, Ruling::kNotAllowed);
  order.kind = OrderKind::kReject;
  EXPECT_EQ(JudgeOrder(order, Waiting(), false).kind, Ruling::kNotAllowed);
}

TEST(ApprovalOrderTest, AnApprovalIsOfTheRequestThatWasShown) {
  ApprovalOrder order = Order(OrderKind::kApprove);
  order.digest = DigestOf("another request");
  const ApprovalRuling ruling = JudgeOrder(order, Waiting(), false);
  EXPECT_EQ(ruling.kind, Ruling::kOtherRequest);
  EXPECT_FALSE(ruling.to || ruling.is_noted);
}

TEST(ApprovalOrderTest, AnotherPolicyOrTheEndOfItsTimeEndsIt) {
  ApprovalOrder order = Order(OrderKind::kApprove);
  ApprovalRuling ruling = JudgeOrder(order, Waiting(), true);
  EXPECT_EQ(ruling.kind, Ruling::kExpired);
  EXPECT_EQ(ruling.to, Phase::kExpired);
  order.policy = DigestOf("a new policy");
  ruling = JudgeOrder(order, Waiting(), false);
  EXPECT_EQ(ruling.kind, Ruling::kDecided);
  EXPECT_EQ(ruling.to, Phase::kExpired);
  EXPECT_EQ(ruling.cause, Cause::kPolicyChanged);
}

TEST(ApprovalOrderTest, SeveralApproversCountOnceEach) {
  Event event = Waiting(2);
  EXPECT_EQ(JudgeOrder(Order(OrderKind::kApprove), event, false).to, Phase::kClaimed);
  event.approval->decisions.push_back({.who = "ann", .reason = {}});
  ApprovalRuling again = JudgeOrder(Order(OrderKind::kApprove), event, false);
  EXPECT_EQ(again.kind, Ruling::kDecided);
  EXPECT_FALSE(again.to || again.is_noted);
  EXPECT_EQ(JudgeOrder(Order(OrderKind::kApprove, "bob"), event, false).to, Phase::kApproved);
  EXPECT_EQ(JudgeOrder(Order(OrderKind::kReject, "bob"), event, false).to, Phase::kDenied);
}

TEST(ApprovalOrderTest, AnEditMakesEarlierApprovalsVoid) {
  Event event = Waiting(2);
  event.approval->decisions.push_back({.who = "bob", .reason = {}});
  ApprovalOrder order = Order(OrderKind::kApprove);
  order.body = R"({"to":"bob"})";
  EXPECT_EQ(JudgeOrder(order, event, false).to, Phase::kClaimed);
  EXPECT_EQ(CountApprovals(*event.approval), 1);
  event.approval->decisions.back().is_void = true;
  EXPECT_EQ(CountApprovals(*event.approval), 0);
}

TEST(ApprovalOrderTest, WhoComesSecondIsToldWhoWasFirst) {
  Event event = Waiting();
  event.approval->decisions.push_back({.who = "bob", .reason = "fine"});
  for (const Phase phase : {Phase::kApproved, Phase::kDispatching, Phase::kSucceeded}) {
    event.phase = phase;
    const ApprovalRuling ruling = JudgeOrder(Order(OrderKind::kReject), event, false);
    EXPECT_EQ(ruling.kind, Ruling::kDecided);
    EXPECT_TRUE(ruling.is_noted);
    EXPECT_FALSE(ruling.to);
    EXPECT_THAT(ruling.text, HasSubstr("bob was first and approved it"));
  }
  event.phase = Phase::kExpired;
  EXPECT_EQ(JudgeOrder(Order(OrderKind::kApprove), event, false).kind, Ruling::kExpired);
}

TEST(ApprovalOrderTest, TimeAndPolicyEndItOnlyWhenTheyMust) {
  ApprovalOrder order = Order(OrderKind::kExpire);
  Event event = Waiting();
  EXPECT_EQ(JudgeOrder(order, event, false).kind, Ruling::kNotDue);
  EXPECT_EQ(JudgeOrder(order, event, true).to, Phase::kExpired);
  event.phase = Phase::kApproved;
  EXPECT_EQ(JudgeOrder(order, event, true).to, Phase::kExpired);
  event.phase = Phase::kDispatching;
  EXPECT_FALSE(JudgeOrder(order, event, true).to);
  order.policy = DigestOf("a new policy");
  EXPECT_FALSE(JudgeOrder(order, event, false).to);
  event.phase = Phase::kClaimed;
  EXPECT_EQ(JudgeOrder(order, event, false).cause, Cause::kPolicyChanged);
}

TEST(ApprovalOrderTest, TheDigestTellsEveryPartOfARequest) {
  const Digest digest = RequestDigest("mail", MailRequest());
  EXPECT_NE(digest, RequestDigest("other", MailRequest()));
  for (int part = 0; part < 5; ++part) {
    RenderedRequest other = MailRequest();
    if (part == 0) other.method = "PUT";
    if (part == 1) other.target = "/send?x=1";
    if (part == 2) other.headers.emplace_back("X", "");
    if (part == 3) other.headers.front().second += ";charset=utf-8";
    if (part == 4) other.body += " ";
    EXPECT_NE(digest, RequestDigest("mail", other)) << part;
  }
}

TEST(ApprovalFactsTest, AreReadBackAsTheyWereWritten) {
  ApprovalFacts facts = *Waiting(2).approval;
  facts.asked_ms = 5;
  facts.asked_row = 9;
  facts.asked_lived_ms = 11;
  facts.original_body = std::string("a\0b", 3);
  facts.decisions.push_back({.kind = ApprovalDecision::Kind::kEdited,
                             .is_void = true,
                             .who = "ann",
                             .reason = "less",
                             .wall_ms = 3,
                             .digest = DigestOf("x")});
  facts.decisions.push_back(
      {.kind = ApprovalDecision::Kind::kRejected, .is_late = true, .who = "bob", .reason = {}});
  std::string bytes;
  ByteWriter writer(bytes);
  WriteApproval(writer, facts);
  ApprovalFacts read;
  ByteReader reader(bytes);
  ASSERT_TRUE(ReadApproval(reader, read));
  EXPECT_EQ(read, facts);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ByteReader cut(std::string_view(bytes).substr(0, size));
    EXPECT_FALSE(ReadApproval(cut, read)) << size;
  }
}

}  // namespace
}  // namespace recourse::approval_test
