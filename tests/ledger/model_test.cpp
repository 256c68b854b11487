#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/ledger/write_call_model.h"

namespace recourse::model::model_test {
namespace {

using testing::Contains;
using testing::IsEmpty;

TEST(ModelTest, TheFullRuleSetBreaksNothing) {
  const Outcome outcome = Explore(Rules{});
  std::printf("states: %zu\n", outcome.states);
  EXPECT_THAT(outcome.violations, IsEmpty());
  EXPECT_THAT(outcome.refused_moves, IsEmpty());  // the table has every move of the protocol
  EXPECT_EQ(outcome.states, 13'946U);             // as many as the specification of the model has
}

TEST(ModelTest, ConnectingBesideTheCommitBreaksNothing) {
  const Outcome outcome = Explore(Rules{.connects_beside_commit = true});
  std::printf("states: %zu\n", outcome.states);
  EXPECT_THAT(outcome.violations, IsEmpty());
  EXPECT_THAT(outcome.refused_moves, IsEmpty());
  EXPECT_GT(outcome.states, 13'946U);
}

struct Mutant {
  const char* name;
  bool Rules::* rule;
  const char* violation;
};

class MutantTest : public testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, BreaksTheInvariantThatItsRuleProtects) {
  Rules rules;
  rules.*GetParam().rule = false;
  const Outcome outcome = Explore(rules);
  std::string all;
  for (const std::string& violation : outcome.violations) all += " [" + violation + "]";
  std::printf("%s: %zu states,%s\n", GetParam().name, outcome.states, all.c_str());
  EXPECT_THAT(outcome.violations, Contains(GetParam().violation));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, MutantTest,
    testing::Values(
        Mutant{"DurableBeforeSend", &Rules::durable_before_send, "executed twice"},
        Mutant{"RecoverAsUncertain", &Rules::recover_as_uncertain, "log denies an effect"},
        Mutant{"NoInprogressExpiry", &Rules::no_inprogress_expiry, "executed twice"},
        Mutant{"ProbeSettle", &Rules::probe_settle, "executed twice"},
        Mutant{"NullCompCheck", &Rules::null_comp_check, "empty compensation"},
        Mutant{"NoCompWhileInflight", &Rules::no_comp_while_inflight, "effect after compensation"},
        Mutant{"DurableBeforeAnswer", &Rules::durable_before_answer, "answer not reproducible"},
        Mutant{"CompAtMostOnce", &Rules::comp_at_most_once_or_idem, "compensated twice"},
        Mutant{"ServerErrorUncertain", &Rules::e5xx_uncertain, "failure told, effect exists"},
        Mutant{"FlowFence", &Rules::saga_fence_forward, "dispatched after the flow closed"},
        Mutant{"NoAutoRetry", &Rules::no_auto_retry_on_reset, "executed twice"},
        Mutant{"ResetIsNotNotSent", &Rules::reset_is_not_notsent, "executed twice"},
        Mutant{"AnswerBoundToAttempt", &Rules::resp_bound_to_attempt,
               "failure told, effect exists"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace recourse::model::model_test
