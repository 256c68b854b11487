// A human's no, under another trace or key than the one that it was said to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "filters/ledger/ledger.h"
#include "filters/ledger/model/row_id.h"
#include "tests/ledger/approval_ledger.h"

namespace recourse::earlier_no_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = Begun::Kind;
using OrderKind = ApprovalOrder::Kind;

class EarlierNoTest : public ApprovalLedgerTest {
 protected:
  NewOperation Other(std::string_view key) { return Asking(key, std::string(key) + " trace"); }
  Event Refused() {
    const Event asked = Ask();
    EXPECT_EQ(Say(OrderKind::kReject, asked).event.phase, Phase::kDenied);
    return asked;
  }
};

TEST_P(EarlierNoTest, ItHoldsForEqualCallsUnderAnyTraceAndKeyAlsoAfterARestart) {
  const Event asked = Refused();
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) Restart();
    NewOperation call = Other("k2");
    call.event.principal = 9;
    const Begun told = Begin(std::move(call));
    EXPECT_EQ(told.kind, Kind::kReplay);
    EXPECT_EQ(told.event.operation, asked.operation);
    EXPECT_EQ(told.event.phase, Phase::kDenied);
  }
  EXPECT_TRUE(Claims().empty());
}

TEST_P(EarlierNoTest, ItHoldsForThatCallerThatToolAndThoseArgumentsAlone) {
  const Event asked = Refused();
  NewOperation caller = Other("k2"), tool = Other("k3"), args = Other("k4");
  caller.event.caller = "agent-2";
  tool.event.tool = "orders.cancel";
  args.event.args_hash = DigestOf("other");
  EXPECT_EQ(Begin(std::move(caller)).event.approval->why, "amount > 1000");
  EXPECT_EQ(Begin(std::move(tool)).event.approval->why, "amount > 1000");
  const Begun other = Begin(std::move(args));
  EXPECT_EQ(other.kind, Kind::kHeld);
  EXPECT_THAT(other.event.approval->why,
              HasSubstr("ann said no to this tool with other arguments, operation " +
                        PrintRowId(asked.operation) + ": seen"));
}

TEST_P(EarlierNoTest, ItEndsWithTheTimeThatTheCallCouldHaveWaitedCountedFromTheNo) {
  const Event asked = Ask();
  clock_.Advance(Millis(50'000));
  Say(OrderKind::kReject, asked);
  clock_.Advance(Millis(30'000));
  Say(OrderKind::kApprove, asked, "bob");  // too late, and no second no
  EXPECT_EQ(Begin(Other("k2")).kind, Kind::kReplay);
  clock_.JumpWall(std::chrono::hours(24));
  EXPECT_EQ(Begin(Other("k2")).kind, Kind::kReplay) << "somebody has set the clock";
  clock_.JumpWall(-std::chrono::hours(24));
  Restart();
  EXPECT_EQ(Begin(Other("k2")).kind, Kind::kReplay);
  clock_.Advance(Millis(60'001));  // what was lived before a kill may be forgotten
  const Begun again = Begin(Other("k2"));
  EXPECT_EQ(again.kind, Kind::kHeld);
  EXPECT_THAT(again.event.approval->why, Not(HasSubstr("said no")));
}

TEST_P(EarlierNoTest, AYesAfterItIsNoneAndNothingIsBoundToTheRefusedCall) {
  const Event asked = Refused();
  EXPECT_EQ(Begin(Other("k2")).event.operation, asked.operation);
  clock_.Advance(Millis(60'001));
  const Begun again = Begin(Other("k2"));
  ASSERT_EQ(again.kind, Kind::kHeld);
  EXPECT_NE(again.event.operation, asked.operation);
  EXPECT_EQ(Say(OrderKind::kApprove, again.event).event.phase, Phase::kApproved);
  EXPECT_EQ(Begin(Other("k2")).event.operation, again.event.operation);
}

INSTANTIATE_TEST_SUITE_P(Stores, EarlierNoTest,
                         testing::Values(Store::kMemory, Store::kLmdb, Store::kPostgres),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace recourse::earlier_no_test
