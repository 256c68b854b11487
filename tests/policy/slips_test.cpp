// What is valid and hardly meant is warned of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::slips_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of a tool that has those words, in lines 4 and 5.
std::string WarningsOf(const std::string& match, const std::string& words) {
  const auto loaded = LoadPolicyText(
      "p.yaml",
      "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
      "tools:\n  t: { match: '" +
          match + "',\n    " + words + " }\n");
  EXPECT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  return ProblemsOf(loaded);
}

constexpr const char* kWrite = "effect: write, settle: none, ";

TEST(SlipsTest, AnUndoTakesSomethingOfTheCall) {
  const auto of = [](const std::string& match, const std::string& words) {
    return WarningsOf(match, kWrite + words);
  };
  const auto warned = HasSubstr("p.yaml:5:");
  const auto says = HasSubstr("its request takes nothing from the call or its answer");
  EXPECT_THAT(of("POST b /a",
                 "identity: all, external_ref: answer.body#/id, undo: { request: "
                 "DELETE /a/external_ref }"),
              testing::AllOf(warned, says));
  EXPECT_THAT(of("POST b /r", "identity: all, undo: { request: 'POST /r/:id' }"), says);
  EXPECT_THAT(of("POST b /r/{id}", "identity: all, undo: { request: 'POST /r/undo' }"), says);
  EXPECT_THAT(of("POST b /r", "identity: body#/id, undo: { request: 'POST /r/undo' }"), says);
  EXPECT_THAT(of("POST b /r/{id}", "identity: all, undo: { request: 'DELETE /r/{path.id}' }"),
              Not(says));
  EXPECT_THAT(of("POST b /r",
                 "identity: body#/id, undo: { request: 'POST /u', json: { a: '{body#/id}' } }"),
              Not(says));
  // Of one thing that there is once.
  EXPECT_THAT(of("POST b /lamp/on", "identity: all, undo: { request: 'POST /lamp/off' }"),
              Not(says));
}

TEST(SlipsTest, WhatWasDoneIsNotCalledNeverDone) {
  const auto of = [](const std::string& statuses) {
    return WarningsOf(
        "POST b /a",
        std::string(kWrite) + "identity: all, undo: none, reason: r, not_executed: " + statuses);
  };
  const auto says = HasSubstr("tools.t.not_executed: names a success");
  for (const char* const statuses : {"2xx", "[ 409, 200 ]", "200-503", "299"}) {
    EXPECT_THAT(of(statuses), says) << statuses;
  }
  EXPECT_THAT(of("[ 4xx, 503, 199, 300 ]"), Not(says));
}

TEST(SlipsTest, ADeleteIsNoRead) {
  const auto says = HasSubstr("tools.t.effect: a DELETE that passes as a read");
  EXPECT_THAT(WarningsOf("GET|DELETE b /a", "effect: read"), says);
  EXPECT_THAT(WarningsOf("DELETE b /a", "effect: read"), HasSubstr("p.yaml:5:13: warning"));
  EXPECT_THAT(WarningsOf("GET|POST b /a", "effect: read"), Not(says));
}

TEST(SlipsTest, AnApproverOfNoNameIsTold) {
  const auto of = [](const std::string& by) {
    return WarningsOf("POST b /a", std::string(kWrite) +
                                       "identity: all, undo: none, approval: { by: " + by + " }");
  };
  const auto says = HasSubstr("tools.t.approval.by: '");
  EXPECT_THAT(of("'*'"), testing::AllOf(says, HasSubstr("name the group")));
  EXPECT_THAT(of("'fin, ops'"), testing::AllOf(says, HasSubstr("several are a list")));
  for (const char* const by : {"fin", "[ fin, ops ]", "ann@shop", "'CN=ann,O=shop'"}) {
    EXPECT_THAT(of(by), Not(says)) << by;
  }
}

TEST(SlipsTest, ConditionsOfWhichAllMustHoldMayNotContradict) {
  const auto of = [](const std::string& words) {
    return WarningsOf("POST b /a", kWrite + ("identity: all, undo: none, reason: r, " + words));
  };
  const auto says = HasSubstr("of this list all must hold: it never will");
  EXPECT_THAT(of("approval: { by: a, when: [ 'body#/a == 1', 'body#/b == 1', 'body#/a == 2' ] }"),
              testing::AllOf(says, HasSubstr("when[2]: 'body#/a == 2' never holds where")));
  EXPECT_THAT(of("allow: [ 'body#/a == \"x\"', 'body#/a == \"y\"' ]"), says);
  for (const char* const words : {
           "approval: { by: a, when: [ 'body#/a == 1', 'body#/a == 1.0', 'body#/a > 2' ] }",
           "deny: [ 'body#/a == 1', 'body#/a == 2' ]",
           "failed_when: [ 'answer.body#/a == 1', 'answer.body#/a == 2' ]",
       }) {
    EXPECT_THAT(of(words), Not(says)) << words;
  }
}

}  // namespace
}  // namespace recourse::slips_test
