#include <gtest/gtest.h>

#include "filters/retry/retry_policy.h"
#include "proxy/base/limits.h"

namespace recourse::retry_test {
namespace {

RetryInputs NotSent(int attempts) {
  RetryInputs inputs;
  inputs.attempts = attempts;
  inputs.error = Error(ErrorCode::kNotSent, {}, Delivery::kNotSent);
  return inputs;
}

TEST(RetryPolicyTest, OnlyWhatWasNotSentIsTriedAgain) {
  EXPECT_TRUE(PlanRetry(NotSent(1)).has_value());
  for (const Delivery delivery : {Delivery::kUncertain, Delivery::kAnswered}) {
    RetryInputs inputs = NotSent(1);
    inputs.error = Error(ErrorCode::kNotSent, {}, delivery);
    EXPECT_FALSE(PlanRetry(inputs).has_value());
  }
}

TEST(RetryPolicyTest, RefusalsOfOurOwnAreNotTriedAgain) {
  for (int i = 0; i < kErrorCodeCount; ++i) {
    const auto code = static_cast<ErrorCode>(i);
    RetryInputs inputs = NotSent(1);
    inputs.error = Error(code, {}, Delivery::kNotSent);
    EXPECT_EQ(PlanRetry(inputs).has_value(), code == ErrorCode::kNotSent) << FactsOf(code).slug;
  }
}

TEST(RetryPolicyTest, AttemptsAreBounded) {
  EXPECT_TRUE(PlanRetry(NotSent(limits::kUnsentAttemptsMax - 1)).has_value());
  EXPECT_FALSE(PlanRetry(NotSent(limits::kUnsentAttemptsMax)).has_value());
}

TEST(RetryPolicyTest, WaitsDoubleAndStayInTheirInterval) {
  for (int attempts = 1; attempts < limits::kUnsentAttemptsMax; ++attempts) {
    const Millis interval = limits::kUnsentBackoffFirst * (1 << (attempts - 1));
    for (const std::uint32_t jitter : {0U, 1U, 7U, 1'000'003U, 0xffffffffU}) {
      RetryInputs inputs = NotSent(attempts);
      inputs.jitter = jitter;
      const auto wait = PlanRetry(inputs);
      ASSERT_TRUE(wait.has_value());
      EXPECT_GE(*wait, interval / 2);
      EXPECT_LE(*wait, interval);
    }
  }
}

TEST(RetryPolicyTest, NoAttemptStartsAtOrAfterTheDeadline) {
  RetryInputs inputs = NotSent(1);
  inputs.now = MonoTime(Millis(1'000));
  const Millis wait = *PlanRetry(inputs);
  inputs.deadline = inputs.now + wait;
  EXPECT_FALSE(PlanRetry(inputs).has_value());
  inputs.deadline += Millis(1);
  EXPECT_TRUE(PlanRetry(inputs).has_value());
}

}  // namespace
}  // namespace recourse::retry_test
