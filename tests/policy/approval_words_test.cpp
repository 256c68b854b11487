// What the policy says about approval, and about suspected duplicates.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::approval_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadedPolicy With(const std::string& lines) {
  return LoadPolicyText("p.yaml",
                        "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t:\n"
                        "    match: POST b /t\n    effect: write\n    identity: body#/id\n" +
                            lines);
}

constexpr const char* kSuspected = "    approval: { by: a, when: suspected }\n";

TEST(ApprovalWordsTest, WithoutAnyBackendItIsOneErrorAmongOthers) {
  const auto loaded = LoadPolicyText("p.yaml",
                                     "version: 1\ntools:\n  t: { match: POST b /t, effect: write, "
                                     "undo: none, approval: { by: a } }\n");
  EXPECT_THAT(ProblemsOf(loaded), HasSubstr("no backend is called 'b'"));
}

TEST(ApprovalWordsTest, ASummaryIsTextWithPlacesOfTheRequestAndNoCredential) {
  const auto of = [](const std::string& summary) {
    return With("    reason: r\n    approval: { by: a, summary: \"" + summary + "\" }\n");
  };
  const auto good = of("mail to {body#/to}: {query.q}");
  ASSERT_TRUE(good.ok()) << ProblemsOf(good);
  EXPECT_EQ(good.policy->tools[0].approval->summary.size(), 4U);
  EXPECT_THAT(ProblemsOf(of("{answer.body#/id}")),
              HasSubstr("error: tools.t.approval.summary: only the request is known here"));
  EXPECT_THAT(ProblemsOf(of("{body#/to")), HasSubstr("a brace is not closed"));
  for (const char* const field : {"Authorization", "X-Api-Key", "X-User-Token"}) {
    EXPECT_THAT(ProblemsOf(of(std::string("{header.") + field + "}")),
                HasSubstr("carries a credential"));
  }
  EXPECT_THAT(ProblemsOf(of("{path.id}")), HasSubstr("tools.t.approval"));
}

TEST(SuspectedWordsTest, OneWordOrAListOfItAsksAboutSuspectedDuplicatesAlone) {
  for (const std::string word : {"suspected", "[ suspected ]"}) {
    const auto loaded =
        With("    reason: r\n    on_mismatch: ask\n    approval: { by: a, when: " + word + " }\n");
    ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
    EXPECT_TRUE(loaded.policy->tools[0].approval->only_suspected);
    EXPECT_THAT(ProblemsOf(loaded), Not(HasSubstr("`ask` asks nobody")));
  }
}

TEST(SuspectedWordsTest, ThereMustBeSomethingToSuspectAndNoOtherCondition) {
  EXPECT_THAT(ProblemsOf(With(std::string("    reason: r\n") + kSuspected)),
              HasSubstr("error: tools.t.approval.when: asks about suspected duplicates alone"));
  EXPECT_THAT(
      ProblemsOf(With("    reason: r\n    on_mismatch: ask\n"
                      "    approval: { by: a, when: [ suspected, body#/n > 1 ] }\n")),
      HasSubstr(
          "error: tools.t.approval.when[0]: 'suspected' is no place; accepted: body#/pointer"));
}

TEST(SuspectedWordsTest, AskingAboutRepeatsIsNoExcuseForAWriteThatCannotBeUndone) {
  EXPECT_THAT(ProblemsOf(With(std::string("    on_mismatch: ask\n") + kSuspected)),
              HasSubstr("error: tools.t.undo: a write needs one of these"));
}

TEST(SuspectedWordsTest, AskingNobodyIsWarnedAbout) {
  EXPECT_THAT(ProblemsOf(With("    reason: r\n    across_traces: ask\n")),
              HasSubstr("p.yaml:9:20: warning: tools.t.across_traces: `ask` asks nobody"));
}

}  // namespace
}  // namespace recourse::approval_words_test
