// `key_after_failure: new`: what was refused for sure goes on under another key, and nothing else.
#include <gtest/gtest.h>

#include "filters/ledger/rules/begin_decision.h"

namespace recourse::key_after_failure_test {
namespace {

BeginDecision Again(Phase phase, Cause cause) {
  NewOperation call;
  call.refusals_are_free = true;
  call.new_key_after_failure = true;
  call.may_resend = true;
  call.attempts_max = limits::kAttemptsPerOperationMax;
  KeyEntry entry;
  entry.operation = entry.last_event = 1;
  entry.attempt = 1;
  entry.phase = phase;
  entry.cause = cause;
  return DecideBegin(call, {.same_key = &entry});
}

TEST(KeyAfterFailureTest, OnlyWhatTheBackendHasRefusedHasANewOne) {
  for (const Phase phase : {Phase::kRejected, Phase::kNotSent}) {
    for (const Cause cause : {Cause::kAnswer, Cause::kRejectedNow}) {
      EXPECT_EQ(Again(phase, cause), (BeginDecision{.generation = 1})) << NameOf(phase);
    }
  }
  // Nobody has seen the key, or its effect may be there.
  EXPECT_EQ(Again(Phase::kNotSent, Cause::kConnectFailed).attempt, 2);
  for (const Phase phase : {Phase::kUncertain, Phase::kProvenAbsent}) {
    const BeginDecision decision = Again(phase, Cause::kAnswer);
    EXPECT_EQ(decision.target, BeginDecision::Target::kSameKey) << NameOf(phase);
    EXPECT_EQ(decision.generation, 0U) << NameOf(phase);
  }
}

}  // namespace
}  // namespace recourse::key_after_failure_test
