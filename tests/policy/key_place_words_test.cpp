// `key_at` and what is said beside it: what is accepted, and what is said of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::key_place_words_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadedPolicy Load(const std::string& backend, const std::string& tool = "",
                  const std::string& match = "POST b /t") {
  return LoadPolicyText("p.yaml", "version: 1\nbackends: { b: { url: \"http://b\"" + backend +
                                      " } }\ntools:\n  t: { match: " + match +
                                      ", effect: write, identity: body#/a" + tool + " }\n");
}
constexpr const char* kReason = ", undo: none, reason: r";

TEST(KeyPlaceWordsTest, AToolSaysOtherwiseThanItsBackend) {
  const auto loaded = Load(", key_at: body#/id, key_form: uuid, key_lives: 6h, key_scope: account",
                           std::string(kReason) +
                               ", key_lives: 45d, key_hit: answer.status == 200"
                               ", key_answer: latest, key_after_failure: new");
  ASSERT_EQ(ProblemsOf(loaded), "");
  const Policy& policy = *loaded.policy;
  const KeyRule& rule = KeyRuleOf(policy.tools[0], policy.backends[0]);
  EXPECT_EQ(rule.at, (RequestPlace{RequestPlace::Where::kBody, "/id"}));
  EXPECT_EQ(rule.form.Text(), "uuid");
  EXPECT_EQ(rule.lives, Millis(45LL * 86'400'000));
  EXPECT_TRUE(rule.is_accounts && rule.answers_latest && rule.new_after_failure);
  EXPECT_EQ(rule.hit.size(), 1U);
  EXPECT_EQ(policy.backends[0].key.lives, Millis(6LL * 3'600'000));
  EXPECT_FALSE(policy.backends[0].write_reuse) << "only a field goes with every write";
  const Tool unlisted;
  EXPECT_FALSE(KeyRuleOf(unlisted, policy.backends[0]).at.exists());
}

TEST(KeyPlaceWordsTest, AHeaderHasAShortFormAndIsTakenBack) {
  const auto loaded = Load(", key_header: X-Key", std::string(kReason) + ", key_at: none");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const Policy& policy = *loaded.policy;
  EXPECT_TRUE(policy.backends[0].key.at.IsField("x-key"));
  EXPECT_FALSE(KeyRuleOf(policy.tools[0], policy.backends[0]).at.exists());
  const auto longer = Load(", key_at: header:X-Key", kReason);
  EXPECT_EQ(ProblemsOf(longer), "");
  EXPECT_EQ(longer.policy->backends[0].key.at, policy.backends[0].key.at);
}

TEST(KeyPlaceWordsTest, AnUndoHasAKeyOfItsOwn) {
  const auto loaded =
      Load("",
           ", undo: { request: \"POST /refunds\", json: { of: \"{external_ref}\" }, "
           "key_at: body#/key, key_form: alnum:45, repeatable: by_key, "
           "done: [ 2xx, 'answer.body#/errors/0/code == \"GONE\"' ], "
           "then_probe: true }, settle: { request: \"GET /t\", happened: "
           "answer.body#/id }");
  ASSERT_EQ(ProblemsOf(loaded), "");
  const UndoRule& undo = *loaded.policy->tools[0].undo;
  EXPECT_EQ(KeyRuleOfUndo(&undo, loaded.policy->backends[0]).form.Text(), "alnum:45");
  EXPECT_EQ(undo.done.ToString(), "200-299");
  EXPECT_EQ(undo.done_if.size(), 1U);
  EXPECT_TRUE(undo.then_probe);
}

struct Row {
  std::string backend, tool, problem;
};

TEST(KeyPlaceWordsTest, WhatIsWrongIsToldWithTheFix) {
  const std::string reason = kReason;
  const auto undo = [](const std::string& words) {
    return ", undo: { request: \"POST /r\", " + words + " }";
  };
  const Row rows[] = {
      {", key_at: body", reason,
       "backends.b.key_at: 'body': a place in the body is written body#/ with its pointer; "
       "accepted: header:Idempotency-Key, body#/"},
      {", key_at: body#id", reason, "'body#id': after body# comes a JSON pointer"},
      {", key_at: body#/", reason, "'body#/': the pointer names no member"},
      {", key_at: header.X-Key", reason, "'header.X-Key': a field is written with a colon here"},
      {", key_at: \"header:a b\"", reason, "'header:a b': after header: the name of a field"},
      {", key_at: header:Authorization", reason,
       "the field has a meaning of its own, and its value is no key"},
      {", key_header: Cookie", reason, "accepted: the name of a header field that carries a key"},
      {", key_at: header:Content-Type", reason, "the field has a meaning of its own"},
      {", key_at: header:Host", reason, "'header:Host': the field is about framing or routing"},
      {", key_at: answer.body#/id", reason, "'answer.body#/id': that is no place in the request"},
      {", key_at: path.id", reason, "'path.id': nothing is ever written into a path"},
      {", key_at: query", reason, "'query': a place in the query is written query. with its name"},
      {", key_at: key", reason, "'key': that is a value, and no place"},
      {", key_at: X-Key", reason,
       "'X-Key': no place begins like that, did you mean 'header:X-Key'?; accepted: header:"},
      {", key_at: header:X, key_header: Y", reason, "key_header: is short for `key_at"},
      {", key_at: header:X, key_form: short", reason,
       "key_form: 'short': accepted: uuid, alnum:25"},
      {", key_form: uuid", reason, "key_form: is about the key at `key_at`, and there is none"},
      {"", reason + ", key_hit: answer.status == 200", "tools.t.key_hit: is about the key"},
      {", key_header: K", reason + ", key_hit: body#/a == 1", "key_hit: this looks at the answer"},
      {"", undo("json: { a: 1 }, key_at: body#/a, key_form: uuid"),
       "undo.key_at: the request has that place already"},
      {"", undo("form: { k: x }, key_at: body#/k"), "undo.key_at: the request has that place"},
      {"", undo("key_at: body#/a"), "undo.key_at: the request has no body that is an object"},
      {"", undo("key_form: uuid"), "undo.key_form: is about the key at `key_at`"},
      {"", undo("repeatable: by_key"), "`repeatable: by_key` needs a backend with key_header"},
      {"", undo("then_probe: true"), "then_probe asks by the tool's `settle`"},
      {"", undo("done: [ 2xx, gone ]"), "undo.done"},
      {"", undo("done: [ body#/a == 1 ]"), "undo.done"},
      {", key_header: K", undo("headers: { K: x }"), "K is the backend's key_header"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(ProblemsOf(Load(row.backend, row.tool)), HasSubstr(row.problem))
        << row.backend << row.tool;
  }
  EXPECT_THAT(ProblemsOf(Load(", protocol: mcp", reason + ", key_at: body#/k", "tools/call b pay")),
              HasSubstr("tools.t.key_at: a call by name has room for a key in its header"));
}

TEST(KeyPlaceWordsTest, ACallWithoutABodyHasNoRoomForAKeyInIt) {
  const std::string reason = ", undo: none, reason: r";
  const std::string warning =
      "tools.t.key_at: is body#/k for backend b, and a DELETE without a body has no room for it";
  const std::string at = ", key_at: body#/k";
  EXPECT_THAT(ProblemsOf(Load(at, reason, "\"DELETE b /t/{id}\"")), HasSubstr(warning));
  EXPECT_THAT(ProblemsOf(Load(at, reason + ", key_at: none", "\"DELETE b /t/{id}\"")),
              Not(HasSubstr("no room")));
  EXPECT_THAT(ProblemsOf(Load(at, reason, "\"POST b /t/{id}\"")), Not(HasSubstr("no room")));
  EXPECT_THAT(ProblemsOf(Load(", key_at: query.k", reason, "\"DELETE b /t/{id}\"")),
              Not(HasSubstr("no room")));
}

}  // namespace
}  // namespace recourse::key_place_words_test
