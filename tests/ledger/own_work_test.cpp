// Of what waits longer than a call each process sees to its own: what it has said last, or has
// taken over.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/postgres/connection.h"
#include "tests/ledger/approval_ledger.h"
#include "tests/ledger/ledger_test_support.h"
#include "tests/ledger/postgres_server.h"

namespace recourse::own_work_test {
namespace {

class OwnWorkTest : public testing::Test {
 protected:
  std::unique_ptr<Ledger> Open() { return OpenTimedPostgres(url_, clock_); }
  Event Begin(Ledger& ledger, NewOperation call) {
    const auto begun = Await(ledger.Begin(std::move(call), executor_), executor_);
    EXPECT_TRUE(begun && begun->commit) << (begun ? "" : begun.error().detail());
    return begun ? begun->event : Event();
  }
  std::size_t OwnClaims(Ledger& ledger) {
    const auto claims = Await(ledger.OwnClaims(0, 100, executor_), executor_);
    EXPECT_TRUE(claims);
    return claims ? claims->size() : 99;
  }
  std::size_t OwnFlows(Ledger& ledger) {
    const auto flows = Await(ledger.OwnFlows(0, 100, executor_), executor_);
    EXPECT_TRUE(flows);
    return flows ? flows->size() : 99;
  }
  bool IsOthers(Ledger& ledger) {
    const auto flows = Await(ledger.Flows(0, 100, executor_), executor_);
    EXPECT_TRUE(flows && flows->size() == 1);
    return flows && flows->front().is_others;
  }
  static NewOperation Step(bool has_deadline) {
    NewOperation call = Call("step", "flow-1");
    call.event.is_step = true;
    call.event.flow_has_deadline = has_deadline;
    return call;
  }
  // Asks again and again, for a minute at most.
  static bool Becomes(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::chrono::steady_clock::now() < end) {
      if (holds()) return true;
    }
    return false;
  }

  const SystemClock clock_{};
  PumpedExecutor executor_;
  const std::string url_ = FreshPostgresLedger();
  std::unique_ptr<Ledger> one_ = Open();
  std::unique_ptr<Ledger> other_ = Open();
};

TEST_F(OwnWorkTest, WhatWaitsForAHumanIsWithTheOneThatAskedUntilThatEnds) {
  Begin(*one_, Asking("k"));
  EXPECT_EQ(Await(other_->Claims(0, 100, executor_), executor_)->size(), 1U);
  EXPECT_EQ(OwnClaims(*one_), 1U);
  EXPECT_EQ(OwnClaims(*other_), 0U);
  one_.reset();
  EXPECT_TRUE(Becomes([&] { return OwnClaims(*other_) == 1; }));
}

TEST_F(OwnWorkTest, WhatWaitsForAHumanIsWithTheOneThatWasToldSomethingLast) {
  NewOperation asking = Asking("k");
  asking.approval->needed = 2;
  const Event claim = Begin(*one_, std::move(asking));
  const auto said = Await(other_->Decide({.kind = ApprovalOrder::Kind::kApprove,
                                          .operation = claim.operation,
                                          .by = {"ann", {"team"}},
                                          .digest = claim.approval->digest,
                                          .policy = kPolicy,
                                          .reason = "seen"},
                                         executor_),
                          executor_);
  ASSERT_TRUE(said && said->moved) << (said ? said->text : said.error().detail());
  EXPECT_EQ(said->event.phase, Phase::kClaimed);
  EXPECT_EQ(OwnClaims(*one_), 0U);
  EXPECT_EQ(OwnClaims(*other_), 1U);
}

TEST_F(OwnWorkTest, AFlowIsWithTheOneThatWatchesItsDeadlineAndThenWithTheOneThatMovedIt) {
  Begin(*one_, Step(true));
  EXPECT_EQ(OwnFlows(*one_), 1U);
  EXPECT_EQ(OwnFlows(*other_), 0U);
  EXPECT_FALSE(IsOthers(*one_));
  EXPECT_TRUE(IsOthers(*other_));
  FlowMove broken{
      .caller = "agent-1", .flow = "flow-1", .cause = FlowCause::kCanceled, .reason = ""};
  ASSERT_TRUE(Await(other_->MoveFlow(std::move(broken), executor_), executor_));
  EXPECT_EQ(OwnFlows(*one_), 0U);
  EXPECT_EQ(OwnFlows(*other_), 1U);
  EXPECT_TRUE(IsOthers(*one_));
}

TEST_F(OwnWorkTest, AFlowWhoseStepBecameUnknownWithItsProcessIsWithTheOneThatTookThatOver) {
  Begin(*one_, Step(false));
  EXPECT_EQ(OwnFlows(*other_), 0U);
  one_.reset();
  EXPECT_TRUE(Becomes([&] { return OwnFlows(*other_) == 1; }));
  EXPECT_FALSE(IsOthers(*other_));
}

TEST_F(OwnWorkTest, AStreamThatIsIdleForADayEndsAndItsProcessGoesOnUnderAnother) {
  const Event first = Begin(*one_, Call("first"));
  ASSERT_TRUE(Await(one_->Record(Success(first), executor_), executor_));
  auto connection = PgConnection::Open({.url = url_});
  ASSERT_TRUE((*connection)->Execute("UPDATE stream SET at = now() - interval '25 hours'"));
  const auto third = Open();
  (*connection)->Queue({"live", "SELECT count(*) FROM stream WHERE state = 1"});
  EXPECT_EQ((*connection)->Run()->front().Int(0, 0), 1);
  const Event second = Begin(*one_, Call("second"));
  EXPECT_NE(UnpackRowId(second.id).stream, UnpackRowId(first.id).stream);
}

}  // namespace
}  // namespace recourse::own_work_test
