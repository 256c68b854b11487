#include "proxy/base/call_budget.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace recourse::call_budget_test {
namespace {

constexpr std::size_t kMib = 1024 * 1024;
constexpr std::size_t kBudget = 192 * kMib;
using Of = CallBudget::Of;

TEST(CallBudgetTest, OneCallerMayHaveThreeQuartersAndACallWhatIsLeftBesideIt) {
  struct Row {
    BudgetUse use;
    std::size_t more;
    bool fits;
  };
  const Row rows[] = {
      {{100, 0, 0, 0}, 37, true},    // 3 * 63 - 37 leaves 38 for another one
      {{100, 0, 0, 0}, 38, false},   // and here 37
      {{100, 74, 74, 0}, 1, false},  // three quarters, with nothing left beside it
      {{100, 72, 72, 0}, 1, true},
      {{100, 72, 72, 0}, 2, false},  // a large one has to wait where a small one fits
      {{100, 72, 72, 2}, 1, false},
      {{100, 74, 0, 0}, 9, true},  // another caller's
      {{100, 74, 0, 0}, 10, false},
      {{100, 100, 0, 0}, 1, false},
      {{100, 0, 0, 0}, 101, false},
      {{100, 0, 0, 0}, std::size_t{0} - 1, false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(MayHold(row.use, row.more), row.fits)
        << row.use.all << " " << row.use.caller << " " << row.use.call << " " << row.more;
  }
}

// As many calls of `size` as fit.
std::size_t Fill(std::deque<CallBudget::Hold>& calls, CallBudget& budget, const std::string& caller,
                 std::size_t size) {
  for (std::size_t count = 0;; ++count) {
    if (calls.emplace_back(budget, Of::kServed, caller).Set(HeldFor::kBody, size)) continue;
    calls.pop_back();
    return count;
  }
}

TEST(CallBudgetTest, AFloodOfLargeCallsLeavesRoomForSmallOnesAndForOtherCallers) {
  CallBudget budget(kBudget);
  std::deque<CallBudget::Hold> calls;
  const std::size_t large = Fill(calls, budget, "loud", 8 * kMib);
  EXPECT_GE(large, 14u);
  EXPECT_LE(large * 8 * kMib, kBudget * 3 / 4);
  EXPECT_GT(Fill(calls, budget, "loud", 16 * 1024), 100u);
  EXPECT_GE(Fill(calls, budget, "quiet", 8 * kMib), 1u);
  EXPECT_GT(Fill(calls, budget, "third", 16 * 1024), 100u);
  EXPECT_LE(budget.held(Of::kServed), kBudget);
}

TEST(CallBudgetTest, CallersThatComeOneAfterTheOtherEachFindSomeRoom) {
  CallBudget budget(kBudget);
  std::deque<CallBudget::Hold> calls;
  for (int caller = 0; caller < 8; ++caller) {
    EXPECT_GT(Fill(calls, budget, std::to_string(caller), 16 * 1024), 0u) << caller;
  }
}

TEST(CallBudgetTest, WhatIsLetGoIsThereForTheNext) {
  CallBudget budget(kBudget);
  {
    CallBudget::Hold call(budget, Of::kServed, "one");
    EXPECT_TRUE(call.Set(HeldFor::kBody, 8 * kMib));
    EXPECT_TRUE(call.Set(HeldFor::kAnswer, kMib));
    EXPECT_EQ(budget.held(Of::kServed), 9 * kMib);
    EXPECT_FALSE(call.Set(HeldFor::kBody, kBudget));
    EXPECT_EQ(budget.held(Of::kServed), 9 * kMib) << "it holds as much as before";
    EXPECT_TRUE(call.Set(HeldFor::kBody, 0));
    EXPECT_EQ(budget.held(Of::kServed), kMib);
  }
  EXPECT_EQ(budget.held(Of::kServed), 0u);
  EXPECT_EQ(budget.held(Of::kObserved), 0u);
  std::deque<CallBudget::Hold> calls;
  for (int round = 0; round < 2; ++round) {
    EXPECT_GT(Fill(calls, budget, "one", kMib), 100u);
    calls.clear();
  }
}

TEST(CallBudgetTest, VeryManyCallersAreCountedTogether) {
  CallBudget budget(kBudget);
  std::deque<CallBudget::Hold> calls;
  for (int caller = 0; caller < 10'000; ++caller) {
    EXPECT_TRUE(
        calls.emplace_back(budget, Of::kServed, std::to_string(caller)).Set(HeldFor::kCall, 1'024));
  }
  EXPECT_EQ(budget.held(Of::kServed), 10'000u * 1'024);
  calls.clear();
  EXPECT_EQ(budget.held(Of::kServed), 0u);
}

}  // namespace
}  // namespace recourse::call_budget_test
