#include "filters/ledger/rules/retain.h"

#include <gtest/gtest.h>

#include <optional>
#include <variant>

namespace recourse::retain_test {
namespace {

constexpr std::uint64_t kRow = 7;

Digest KeyNumber(std::uint8_t number) {
  Digest key{};
  key[0] = number;
  return key;
}

// The last event of its operation, which began in a row before it.
OldEvent LastEvent(Phase phase) {
  OldEvent event;
  event.row = kRow;
  event.front.operation = 3;
  event.front.phase = phase;
  event.front.key = event.front.base_key = KeyNumber(1);
  event.own = KeyPlace{kRow, 0};
  event.is_held = false;
  event.is_ended = false;
  return event;
}

RetainPlan PlanOf(const OldEvent& event) {
  const auto judged = Retain(event);
  const auto* const plan = std::get_if<RetainPlan>(&judged);
  EXPECT_NE(plan, nullptr);
  return plan == nullptr ? RetainPlan() : *plan;
}

TEST(RetainTest, ItAsksOnlyForWhatTheRowMakesNeeded) {
  OldEvent event = LastEvent(Phase::kSucceeded);
  event.own.reset();
  EXPECT_EQ(std::get<EventNeed>(Retain(event)), EventNeed::kOwn);
  event.own = KeyPlace{kRow + 1, 0};
  EXPECT_TRUE(std::holds_alternative<RetainPlan>(Retain(event)));
  event.front.generation = 2;
  EXPECT_EQ(std::get<EventNeed>(Retain(event)), EventNeed::kBase);
  event = LastEvent(Phase::kSucceeded);
  event.is_held.reset();
  EXPECT_EQ(std::get<EventNeed>(Retain(event)), EventNeed::kHeld);
  event = LastEvent(Phase::kSucceeded);
  event.is_ended.reset();
  EXPECT_EQ(std::get<EventNeed>(Retain(event)), EventNeed::kEnded);
  event.front.phase = Phase::kUncertain;
  EXPECT_TRUE(PlanOf(event).carries) << "what is open moves on, however it ends";
}

TEST(RetainTest, WhatIsOpenOrHeldByItsFlowMovesOn) {
  OldEvent held = LastEvent(Phase::kSucceeded);
  held.is_held = true;
  for (const OldEvent& event : {LastEvent(Phase::kUncertain), held}) {
    const RetainPlan plan = PlanOf(event);
    EXPECT_TRUE(plan.carries);
    EXPECT_TRUE(plan.keeps_flow);
    EXPECT_FALSE(plan.is_moved) << "its first row said where it is";
    EXPECT_FALSE(plan.ends);
    EXPECT_TRUE(plan.tombstones.empty());
  }
  held.front.operation = kRow;
  EXPECT_TRUE(PlanOf(held).is_moved);
}

TEST(RetainTest, ASuccessLeavesATombstoneAndAFailureNothing) {
  const RetainPlan success = PlanOf(LastEvent(Phase::kSucceeded));
  EXPECT_TRUE(success.ends);
  ASSERT_EQ(success.tombstones.size(), 1U);
  EXPECT_EQ(success.tombstones[0].operation, 3U);
  EXPECT_EQ(success.tombstones[0].phase, Phase::kSucceeded);
  const RetainPlan failure = PlanOf(LastEvent(Phase::kRejected));
  EXPECT_TRUE(failure.ends);
  EXPECT_TRUE(failure.tombstones.empty());
  EXPECT_EQ(failure.forgotten, std::vector<Digest>{KeyNumber(1)});
}

TEST(RetainTest, AnEffectThatStandsNoMoreIsForgottenWhereNothingElseHasItsKey) {
  OldEvent event = LastEvent(Phase::kSucceeded);
  event.is_ended = true;
  EXPECT_EQ(PlanOf(event).forgotten, std::vector<Digest>{KeyNumber(1)});
  event.own = KeyPlace{kRow, 2};
  const RetainPlan plan = PlanOf(event);
  ASSERT_EQ(plan.tombstones.size(), 1U);
  EXPECT_EQ(plan.tombstones[0].phase, Phase::kCompensated);
  EXPECT_EQ(plan.tombstones[0].newest_generation, 2U);
}

TEST(RetainTest, WhatSaysAloneThatThereAreLaterGenerationsLeavesThat) {
  OldEvent event = LastEvent(Phase::kSucceeded);
  event.front.generation = 2;
  event.front.key = KeyNumber(2);
  event.base = KeyPlace{kRow, 2};
  const RetainPlan plan = PlanOf(event);
  ASSERT_EQ(plan.tombstones.size(), 2U);
  EXPECT_EQ(plan.tombstones[1].key, KeyNumber(1));
  EXPECT_EQ(plan.tombstones[1].operation, 0U);
  event.base = KeyPlace{kRow + 1, 2};
  EXPECT_EQ(PlanOf(event).tombstones.size(), 1U);
}

TEST(RetainTest, TheFirstRowOfAnOperationLeavesWhereItIs) {
  OldEvent event = LastEvent(Phase::kDispatching);
  event.front.operation = kRow;
  event.own = KeyPlace{kRow + 1, 0};
  EXPECT_EQ(std::get<EventNeed>(Retain(event)), EventNeed::kKept);
  event.is_kept = true;
  EXPECT_TRUE(PlanOf(event).is_moved);
  EXPECT_TRUE(PlanOf(event).keeps_flow);
  event.is_kept = false;
  EXPECT_FALSE(PlanOf(event).is_moved);
}

TEST(RetainTest, AnAliasMovesOnWithItsTargetWhileItIsTheNewest) {
  Alias alias;
  alias.key = KeyNumber(1);
  alias.generation = 1;
  alias.operation = 3;
  const PlaceOfKey own = KeyPlace{kRow, 0};
  EXPECT_TRUE(RetainAlias(alias, kRow, own, KeyPlace{kRow + 1, 1}, true).carries);
  const RetainPlan gone = RetainAlias(alias, kRow, own, KeyPlace{kRow + 1, 1}, false);
  EXPECT_FALSE(gone.carries);
  EXPECT_EQ(gone.tombstones.size(), 1U);
  const RetainPlan older = RetainAlias(alias, kRow, own, KeyPlace{kRow + 1, 2}, true);
  EXPECT_EQ(older.forgotten.size(), 1U);
  const RetainPlan elsewhere = RetainAlias(alias, kRow, KeyPlace{kRow + 1, 0}, std::nullopt, true);
  EXPECT_FALSE(elsewhere.carries);
  EXPECT_TRUE(elsewhere.tombstones.empty());
}

TEST(RetainTest, ATombstoneIsKeptForItsTimeAndAsLongAsALaterGenerationIs) {
  Tombstone tombstone;
  tombstone.since_ms = 100;
  const auto fate = [&](const PlaceOfKey& own, Later later, std::int64_t lived_ms) {
    return RetainTombstone(tombstone, kRow, own, later, lived_ms, 50);
  };
  EXPECT_EQ(fate(KeyPlace{kRow, 0}, Later::kNone, 149), TombstoneFate::kMovesOn);
  EXPECT_EQ(fate(KeyPlace{kRow, 0}, Later::kNone, 150), TombstoneFate::kIsOver);
  EXPECT_EQ(fate(KeyPlace{kRow, 0}, Later::kKept, 150), TombstoneFate::kMovesOn);
  EXPECT_EQ(fate(KeyPlace{kRow + 1, 0}, Later::kNone, 0), TombstoneFate::kIsReplaced);
  EXPECT_EQ(fate(std::nullopt, Later::kNone, 0), TombstoneFate::kIsReplaced);
}

}  // namespace
}  // namespace recourse::retain_test
