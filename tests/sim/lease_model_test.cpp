#include "tests/sim/lease_model.h"

#include <gtest/gtest.h>

namespace recourse::lease_model {
namespace {

std::string Told(const Found& found) {
  std::string text = found.violation + " in " + std::to_string(found.states) + " states:";
  for (const std::string& step : found.trace) text += "\n  " + step;
  return text;
}

TEST(LeaseModelTest, WithAllRulesNothingHappensTwiceOrIsForgotten) {
  const Found found = Explore({});
  EXPECT_EQ(found.violation, "") << Told(found);
  EXPECT_GT(found.states, 100'000U);
  RecordProperty("states", static_cast<int>(found.states));
}

TEST(LeaseModelTest, EachRuleLeftOutAloneBreaksThePromise) {
  for (const Rule rule :
       {Rule::kFence, Rule::kHead, Rule::kBeatIsCompared, Rule::kLeaseFromSending,
        Rule::kLeaseFromFirstSending, Rule::kWatchdog, Rule::kLostOwnerIsUnknown,
        Rule::kClockCountsPauses, Rule::kAbsenceFromTakeOver, Rule::kTestimonyOfItsAttempt}) {
    const Found found = Explore({rule});
    EXPECT_NE(found.violation, "") << static_cast<int>(rule) << " in " << found.states;
  }
}

// It saves processes from their watchdog, and calls from being unknown. It alone keeps no promise.
TEST(LeaseModelTest, TheCheckAloneIsGraceAndNoSafety) {
  EXPECT_EQ(Explore({Rule::kCheck}).violation, "");
  EXPECT_EQ(Explore({Rule::kCheck, Rule::kWatchdog}).violation, "two effects");
}

}  // namespace
}  // namespace recourse::lease_model
