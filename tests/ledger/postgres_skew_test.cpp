// Processes of a group read its clock from the database, each a moment later than it was told.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "proxy/base/lease_limits.h"
#include "tests/ledger/approval_ledger.h"
#include "tests/ledger/postgres_upkeep_fixture.h"

namespace recourse::postgres_skew_test {
namespace {

class SkewTest : public PostgresUpkeepTest {
 protected:
  // What becomes of a call that one has just asked about, by the word of one whose clock is behind.
  Phase ApprovedBehind(Millis behind) {
    ManualClock late;
    late.JumpWall(-behind);
    const std::unique_ptr<Ledger> ledger = OpenTestPostgres(url_, late);
    const auto asked = TryBegin(*one_, Asking("k"));
    EXPECT_TRUE(asked && asked->kind == Begun::Kind::kHeld);
    const std::uint64_t operation = asked->event.operation;
    (void)ApproveAt(*ledger, operation, "ann", executor_);
    const auto then = Await(ledger->Read(operation, executor_), executor_);
    EXPECT_TRUE(then);
    for (const ApprovalDecision& one : then->approval->decisions) {
      EXPECT_GE(one.wall_ms, then->approval->asked_ms);
    }
    return then->phase;
  }
};

TEST_F(SkewTest, WhatWasAskedAMomentAgoByAnothersClockIsNotOver) {
  EXPECT_EQ(ApprovedBehind(Millis(1)), Phase::kApproved);
}

TEST_F(SkewTest, AMomentIsAsLongAsReadingsCanDiffer) {
  EXPECT_EQ(ApprovedBehind(limits::kClockJumpTold), Phase::kApproved);
}

TEST_F(SkewTest, HowLongAgoItWasIsNotKnownOnceTheClockWasSetBack) {
  EXPECT_EQ(ApprovedBehind(limits::kClockJumpTold + Millis(1)), Phase::kExpired);
}

}  // namespace
}  // namespace recourse::postgres_skew_test
