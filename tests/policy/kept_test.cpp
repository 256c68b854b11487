// keep_headers and redact: what a policy may say about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::kept_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WithWords(const std::string& words, const std::string& ledger = "") {
  return ledger +
         "backends: { b: { url: \"http://b\", key_header: Idempotency-Key } }\n"
         "tools:\n  t:\n    match: \"POST b /t/{id}\"\n    effect: write\n    identity: "
         "body#/id\n    agent_key: yields\n" +
         words;
}

std::string ProblemOf(const std::string& words, const std::string& ledger = "") {
  return ProblemsOf(LoadPolicyText("p.yaml", "version: 1\n" + WithWords(words, ledger)));
}

constexpr char kUndo[] = "    undo: none\n    reason: x\n";

TEST(KeptTest, FieldsOfTheLedgerSectionHoldForEveryTool) {
  const auto policy =
      LoadGood(WithWords("    keep_headers: [ X-Receipt, x-b ]\n" + std::string(kUndo),
                         "ledger: { keep_headers: X-Run }\n"));
  EXPECT_THAT(policy->tools[0].keep_headers, ElementsAre("X-Receipt", "x-b", "X-Run"));
}

TEST(KeptTest, CredentialsAreNeverKept) {
  for (const std::string name :
       {"Set-Cookie", "set-cookie2", "Cookie", "Authorization", "X-API-Key", "Api-Key",
        "X-Auth-Token", "Proxy-Authorization", "proxy-authenticate"}) {
    EXPECT_THAT(ProblemOf("    keep_headers: " + name + "\n" + kUndo), HasSubstr("is never kept"))
        << name;
    EXPECT_THAT(ProblemOf(kUndo, "ledger: { keep_headers: [ " + name + " ] }\n"),
                HasSubstr("ledger.keep_headers"))
        << name;
  }
  for (const std::string name : {"Content-Length", "Transfer-Encoding", "\"a b\""}) {
    EXPECT_THAT(ProblemOf("    keep_headers: [ " + name + " ]\n" + kUndo),
                HasSubstr("accepted: the name of an answer's field"))
        << name;
  }
  EXPECT_EQ(ProblemOf("    keep_headers: [ X-Receipt ]\n" + std::string(kUndo)), "");
}

TEST(KeptTest, CredentialsGoIntoFieldsThatCarryCredentialsAndNowhereElse) {
  const std::string good =
      "    settle: { request: \"GET /u\", headers: { Authorization: \"{header.Authorization}\", "
      "X-Api-Key: \"{header.x-api-key}\", X-Plain: \"{header.X-Plain}\" }, "
      "happened: answer.body#/id }\n"
      "    undo: { request: \"DELETE /u\", headers: { Cookie: \"{answer.header.Set-Cookie}\" } }\n";
  EXPECT_EQ(ProblemOf(good), "");
  const struct {
    std::string words, place;
  } rows[] = {
      {"settle: { request: \"GET /u?t={header.authorization}\", happened: answer.body#/id }",
       "tools.t.settle"},
      {"settle: { request: \"GET /{header.Api-Key}\", happened: answer.body#/id }",
       "tools.t.settle"},
      {"settle: { request: \"GET /u\", headers: { X-Plain: \"{header.Cookie}\" }, happened: "
       "answer.body#/id }",
       "tools.t.settle"},
      {"undo: { request: \"POST /u\", json: { a: [ \"{answer.header.Set-Cookie}\" ] } }",
       "tools.t.undo"},
      {"external_ref: header.X-Auth-Token", "tools.t.external_ref"},
      {"external_ref: answer.header.Set-Cookie", "tools.t.external_ref"},
  };
  for (const auto& row : rows) {
    const bool has_undo = row.words.starts_with("undo");
    const std::string problem = ProblemOf("    " + row.words + "\n" + (has_undo ? "" : kUndo));
    EXPECT_THAT(problem, HasSubstr(row.place)) << row.words;
    EXPECT_THAT(problem, HasSubstr("carries credentials")) << row.words;
  }
}

TEST(KeptTest, PlacesThatCanBeRedacted) {
  const auto policy = LoadGood(WithWords(
      "    redact: [ answer.body#/pan, answer.header.X, body#/card, header.X, query.q ]\n" +
      std::string(kUndo)));
  EXPECT_EQ(policy->tools[0].redact.size(), 5U);
  for (const std::string place : {"path.id", "answer.status", "key", "external_ref", "card"}) {
    EXPECT_THAT(ProblemOf("    redact: [ " + place + " ]\n" + kUndo), HasSubstr("accepted:"))
        << place;
  }
}

TEST(KeptTest, NoOtherWordMayStoreWhatIsRedacted) {
  const std::string undo =
      "    undo: { request: \"DELETE /u/{external_ref}?c={body#/card/number}\", headers: { A: "
      "\"{answer.header.X-Name}\" } }\n"
      "    settle: { request: \"GET /u?q={query.q}\", happened: answer.body#/id }\n";
  EXPECT_EQ(ProblemOf("    redact: [ answer.body#/pan, body#/car, body#/card/num, query.r, "
                      "header.X-Name, answer.header.X ]\n" +
                      undo),
            "");
  const struct {
    std::string place, word;
  } rows[] = {{"body#/card/number", "tools.t.undo"},
              {"body#/card", "tools.t.undo"},
              {"body#/card/number/0", "tools.t.undo"},
              {"answer.header.x-name", "tools.t.undo"},
              {"query.q", "tools.t.settle"},
              {"answer.body#/id", "tools.t.external_ref"},
              {"answer.body#/id/x", "tools.t.external_ref"}};
  for (const auto& row : rows) {
    const std::string problems = ProblemOf("    redact: [ " + row.place + " ]\n" + undo);
    EXPECT_THAT(problems, HasSubstr(row.word)) << row.place;
    EXPECT_THAT(problems, HasSubstr("`redact` says that " + row.place + " never is")) << problems;
  }
}

}  // namespace
}  // namespace recourse::kept_test
