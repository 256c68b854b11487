// The policy's words on what names a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "policy/language/loader.h"
#include "policy/model/policy.h"
#include "tests/policy/policy_builder.h"

namespace recourse::key_words_test {
namespace {

using testing::HasSubstr;

LoadedPolicy Load(const std::string& words) {
  return LoadPolicyText(
      "p.yaml",
      "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\ntools:\n"
      "  t: { match: POST b /t, effect: write, reason: r, identity: body#/a" +
          words + " }\n");
}

TEST(KeyWordsTest, WhoNamesACallIsSaidWhereBothDo) {
  EXPECT_THAT(ProblemsOf(Load("")),
              HasSubstr("warning: tools.t.identity: says what makes two calls "
                        "the same also where the agent sends a key"));
  for (const char* word : {"yields", "wins"}) {
    const LoadedPolicy loaded = Load(std::string(", agent_key: ") + word);
    EXPECT_EQ(ProblemsOf(loaded), "");
    EXPECT_EQ(loaded.policy->tools[0].agent_key == AgentKey::kWins, word == std::string("wins"));
  }
  EXPECT_THAT(ProblemsOf(Load(", agent_key: maybe")), HasSubstr("accepted: yields, wins"));
}

TEST(KeyWordsTest, ThatAllArgumentsCountCanBeSaid) {
  const auto load = [](const std::string& words) {
    return LoadPolicyText("p.yaml",
                          "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n"
                          "  t: { match: POST b /t, effect: write, settle: none, reason: r" +
                              words + " }\n");
  };
  EXPECT_THAT(ProblemsOf(load("")), HasSubstr("or say identity: all if every argument counts"));
  for (const char* word : {", identity: all", ", identity: [ all ]",
                           ", identity: all, agent_key: wins, ignore: /meta/sent_at"}) {
    const LoadedPolicy loaded = load(word);
    EXPECT_EQ(ProblemsOf(loaded), "") << word;
    // As of a tool without the word.
    EXPECT_TRUE(loaded.policy->tools[0].identity.empty()) << word;
  }
  EXPECT_THAT(ProblemsOf(load(", identity: [ all, body#/a ]")),
              HasSubstr("error: tools.t.identity[0]: stands for all arguments"));
  for (const char* meant : {"ALL", "'*'"}) {
    EXPECT_THAT(ProblemsOf(load(std::string(", identity: ") + meant)),
                HasSubstr("is no place, did you mean 'all'?"));
  }
  EXPECT_THAT(ProblemsOf(load(", identity: all, agent_key: yields")),
              HasSubstr("warning: tools.t.agent_key: a key that the agent sends comes before"));
  EXPECT_THAT(ProblemsOf(load(", identity: all, ignore: /note")),
              HasSubstr("warning: tools.t.ignore: /note is a top-level member"));
}

TEST(KeyWordsTest, ThePrincipalMayHaveOtherFields) {
  const auto load = [](const std::string& names) {
    return LoadPolicyText("p.yaml", "version: 1\nprincipal: [ " + names + " ]\n");
  };
  const LoadedPolicy loaded = load("X-Acme, -Cookie");
  EXPECT_EQ(ProblemsOf(loaded), "");
  EXPECT_EQ(loaded.policy->principal.with, std::vector<std::string>{"x-acme"});
  EXPECT_EQ(loaded.policy->principal.without, std::vector<std::string>{"cookie"});
  EXPECT_THAT(ProblemsOf(load("\"X Acme\"")), HasSubstr("p.yaml:2:14: error: principal: accepted"));
  EXPECT_THAT(ProblemsOf(load("-Authorization")), HasSubstr("Authorization always counts"));
}

TEST(KeyWordsTest, RetriesElsewhereAreKnownForAsLongAsThePolicySays) {
  const std::string rule = ", agent_key: wins";
  EXPECT_EQ(Load(rule).policy->tools[0].across_window, limits::kAcrossWindow);
  EXPECT_EQ(Load(rule + ", across_window: 2m").policy->tools[0].across_window, Millis(120'000));
  EXPECT_THAT(ProblemsOf(Load(rule + ", across_window: long")), HasSubstr("a duration such as"));
}

TEST(KeyWordsTest, AnAnswerComesInTheFormThatThePolicyNames) {
  EXPECT_EQ(Load("").policy->tools[0].answer, AnswerForm::kByType);
  EXPECT_EQ(Load(", answer: stream").policy->tools[0].answer, AnswerForm::kStream);
  EXPECT_EQ(Load(", answer: whole").policy->tools[0].answer, AnswerForm::kWhole);
  EXPECT_THAT(ProblemsOf(Load(", answer: 202")), HasSubstr("stream, whole"));
}

TEST(KeyWordsTest, AToolSaysWhoseWritesEndItsAnswers) {
  const auto load = [](const std::string& words) {
    return LoadPolicyText(
        "p.yaml",
        "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\ntools:\n"
        "  set: { match: \"POST b /l/{id}\", effect: write, reason: r, superseded_by: " +
            words +
            " }\n  reset: { match: \"POST b /l/{id}/reset\", effect: write, reason: r }\n"
            "  wipe: { match: \"POST b /wipe/{what}\", effect: write, reason: r }\n"
            "  part: { match: \"DELETE b /l/{id}/parts/{part}\", effect: write, reason: r }\n"
            "  move: { match: \"POST b /k/{id}/l/{one}/move\", effect: write, reason: r }\n"
            "  look: { match: GET b /l, effect: read }\n");
  };
  const LoadedPolicy loaded = load("[ others, reset, wipe, part, move ]");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const Tool& tool = loaded.policy->tools[0];
  EXPECT_TRUE(tool.superseded_by_others);
  ASSERT_EQ(tool.superseded_by.size(), 4U);
  EXPECT_EQ(tool.superseded_by[0].captures, std::vector<std::string>{"id"});
  EXPECT_TRUE(tool.superseded_by[1].captures.empty());
  EXPECT_EQ(tool.superseded_by[2].captures, std::vector<std::string>{"id"});
  EXPECT_TRUE(tool.superseded_by[3].captures.empty()) << "its id is of something else";
  EXPECT_TRUE(loaded.policy->tools[1].supersedes_others);
  EXPECT_FALSE(tool.supersedes_others);
  EXPECT_THAT(ProblemsOf(load("[ reset, reset, reset, reset, reset, reset, wipe ]")),
              HasSubstr("at most 6 tools"));
  EXPECT_THAT(ProblemsOf(load("reste")), HasSubstr("no tool is called reste; accepted: names of"));
  EXPECT_THAT(ProblemsOf(load("look")), HasSubstr("look is a read, which changes nothing"));
  EXPECT_THAT(ProblemsOf(load("set")), HasSubstr("say others if it sets a state"));
}

TEST(KeyWordsTest, AToolCalledByANameThatSetsSomethingSaysWhatEndsItsAnswers) {
  const auto load = [](const std::string& words) {
    return LoadPolicyText("p.yaml",
                          "version: 1\nbackends: { m: { url: \"http://m/mcp\", protocol: mcp } }\n"
                          "tools:\n  t: { match: tools/call m setLevel, effect: write, reason: r, "
                          "settle: none, identity: body#/a" +
                              words + " }\n");
  };
  EXPECT_THAT(ProblemsOf(load("")),
              HasSubstr("tools.t.superseded_by: is not given, and setLevel may set what is there"));
  EXPECT_EQ(ProblemsOf(load(", superseded_by: none")), "");
  const LoadedPolicy loaded = load(", superseded_by: others");
  EXPECT_EQ(ProblemsOf(loaded), "");
  EXPECT_TRUE(loaded.policy->tools[0].superseded_by_others);
}

TEST(KeyWordsTest, APostWhoseUndoSetsBackByAnotherRequestSaysWhatEndsItsAnswers) {
  const auto load = [](const std::string& undo, const std::string& words = "") {
    return LoadPolicyText(
        "p.yaml",
        "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\ntools:\n"
        "  t: { match: \"POST b /l/{id}\", effect: write, identity: body#/a, agent_key: yields, "
        "before: { request: \"GET /l/{path.id}\", keep: body#/a }, undo: { request: \"" +
            undo +
            " /l/{path.id}\", only_if: always, rest: stays, json: { a: "
            "\"{before.body#/a}\" } }" +
            words + " }\n");
  };
  EXPECT_THAT(ProblemsOf(load("PUT")),
              HasSubstr("tools.t.superseded_by: is not given, and its undo sets back what was"));
  EXPECT_EQ(ProblemsOf(load("PUT", ", superseded_by: none")), "");
  EXPECT_EQ(ProblemsOf(load("PUT", ", superseded_by: others")), "");
  EXPECT_THAT(ProblemsOf(load("POST")), testing::Not(HasSubstr("superseded_by")))
      << "that is known";
}

TEST(KeyWordsTest, AMethodThatLooksMisspelledIsWarnedAbout) {
  const auto problems = [](const std::string& method, const std::string& undo) {
    return ProblemsOf(LoadPolicyText(
        "p.yaml",
        "version: 1\nbackends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\ntools:\n"
        "  t: { match: " +
            method +
            " b /t, effect: write, external_ref: answer.body#/id, undo: { "
            "request: \"" +
            undo + " /t/{external_ref}\" } }\n"));
  };
  for (const auto& [wrong, right] : {std::pair("PSOT", "POST"),
                                     {"POTS", "POST"},
                                     {"PTCH", "PATCH"},
                                     {"DELET", "DELETE"},
                                     {"PUTT", "PUT"}}) {
    const std::string said =
        std::string(wrong) + " is no usual method, did you mean '" + right + "'?";
    EXPECT_THAT(problems(wrong, "DELETE"),
                HasSubstr("p.yaml:4:15: warning: tools.t.match: " + said));
    EXPECT_THAT(problems("POST", wrong), HasSubstr("warning: tools.t.undo.request: " + said));
  }
  for (const char* usual : {"POST", "PUT", "PATCH", "DELETE", "PURGE", "MKCOL", "SUBSCRIBE"}) {
    EXPECT_THAT(problems(usual, usual), testing::Not(HasSubstr("no usual method"))) << usual;
  }
}

}  // namespace
}  // namespace recourse::key_words_test
