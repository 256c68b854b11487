// `settle` that searches, `happened_if`, and undo requests that are chosen by state: what is
// accepted, and what is said of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::settle_words_test {
namespace {

using ::testing::HasSubstr;

LoadedPolicy Load(const std::string& words, const std::string& undo = "undo: none, reason: r") {
  return LoadPolicyText("p.yaml",
                        "version: 1\nbackends: { b: { url: \"http://b\" } }\ntools:\n  t: { match: "
                        "POST b /t, effect: write, identity: body#/a, " +
                            undo + words + " }\n");
}
std::string Settle(const std::string& words) { return ", settle: { " + words + " }"; }

TEST(SettleWordsTest, AProbeAsksAndSearches) {
  const auto loaded = Load(Settle(
      "request: \"POST /search\", safe: true, json: { q: \"{body#/a}\" }, mark: body#/meta/key, "
      "happened: { in: answer.body#/data, where: [ \"meta/key == {key}\", \"open == true\" ], "
      "take: number, pages: 5, next: answer.body#/cursor, cursor: body#/cursor }"));
  ASSERT_EQ(ProblemsOf(loaded), "");
  const SettleRule& rule = *loaded.policy->tools[0].settle;
  ASSERT_TRUE(rule.search);
  EXPECT_EQ(rule.happened.name, "/data");
  ASSERT_EQ(rule.search->where.size(), 2U);
  EXPECT_EQ(rule.search->where[0].pointer, "/meta/key");
  EXPECT_EQ(rule.search->take, "/number");
  EXPECT_EQ(rule.search->pages, 5);
  EXPECT_EQ(rule.mark.name, "/meta/key");
}

TEST(SettleWordsTest, AnUndoIsChosenByState) {
  const auto loaded = Load("",
                           "undo: [ { when: 'answer.body#/status == \"open\"', request: \"POST "
                           "/t/{external_ref}/cancel\", credentials: from_call, attempts: 3 }, "
                           "{ request: \"POST /refunds\", json: { of: \"{external_ref}\" } } ]");
  ASSERT_TRUE(loaded.ok()) << ProblemsOf(loaded);
  const auto undos = UndosOf(loaded.policy->tools[0]);
  ASSERT_EQ(undos.size(), 2U);
  EXPECT_EQ(undos[0]->when.size(), 1U);
  EXPECT_EQ(undos[1]->attempts_max, 3);
  EXPECT_EQ(undos[1]->from_call, undos[0]->from_call);
}

TEST(SettleWordsTest, AnErrorOfATwinLeadsToTheProbe) {
  const std::string settle = Settle("request: \"GET /t\", happened: answer.body#/id");
  const std::string when = "'answer.body#/code == \"exists\"'";
  for (const std::string& words : {when, "[ " + when + " ]", "{ when: " + when + ", then: settle }",
                                   "[ { when: " + when + ", then: settle } ]"}) {
    const auto loaded = Load(settle + ", happened_if: " + words);
    ASSERT_EQ(ProblemsOf(loaded), "") << words;
    ASSERT_EQ(loaded.policy->tools[0].happened_if.size(), 1U);
    EXPECT_EQ(loaded.policy->tools[0].happened_if[0].left.name, "/code");
  }
  const std::string shape = "{ when: 'answer.body#/code == \"already_exists\"', then: settle }";
  for (const std::string words :
       {"{ if: answer.body#/a, then: settle }", "{ when: answer.body#/a }",
        "{ when: [ answer.body#/a ], then: settle }", "[]", "[ [ answer.body#/a ] ]"}) {
    EXPECT_THAT(ProblemsOf(Load(settle + ", happened_if: " + words)), HasSubstr(shape)) << words;
  }
  EXPECT_THAT(ProblemsOf(Load(settle + ", happened_if: { when: answer.body#/a, then: stop }")),
              HasSubstr("tools.t.happened_if.then: not one of its values; accepted: settle"));
}

std::string Before(const std::string& more = "") {
  return ", before: { request: \"GET /t\", keep: [ body#/status ]" + more + " }";
}

TEST(SettleWordsTest, AStateIsComparedWithWhatWasThereBefore) {
  const auto loaded = Load(
      Before() + Settle("request: before, headers: { X-Of: \"{header.X-Of}\" }, happened: [ "
                        "'answer.body#/status == \"VOIDED\"' ], absent: 'answer.body#/status == "
                        "\"CREATED\"', absent_after: 1m"));
  ASSERT_EQ(ProblemsOf(loaded), "");
  const SettleRule& rule = *loaded.policy->tools[0].settle;
  EXPECT_TRUE(rule.asks_before);
  EXPECT_EQ(rule.request.source, "GET /t");
  ASSERT_EQ(rule.reached.size(), 1U);
  EXPECT_EQ(rule.request.headers.size(), 1U);
}

TEST(SettleWordsTest, AStateThatCannotBeComparedIsToldWithTheFix) {
  const std::string voided = "'answer.body#/status == \"VOIDED\"'";
  const std::string get = "request: \"GET /t\", happened: ", before = "request: before";
  const std::pair<std::string, std::string> rows[] = {
      {Settle(get + voided),
       "p.yaml:4:122: error: tools.t.settle.happened: a state may be there already"},
      {Settle(get + "[ " + voided + " ]"), "ask by request: before"},
      {Settle(get + "as_set"), "ask by request: before"},
      {Before() + Settle("request: befor, happened: " + voided),
       "tools.t.settle.request: 'befor' is no request, did you mean 'before'?"},
      {Before() + Settle(before + ", happened: as_sett"),
       "tools.t.settle.happened: 'as_sett' is none, did you mean 'as_set'?; accepted: conditions"},
      {Settle(before + ", happened: " + voided),
       "tools.t.settle.request: asks what `before` asks, and there is none"},
      {Before() + Settle(before), "tools.t.settle.happened: is missing"},
      {Before() + Settle(before + ", happened: as_set"),
       "tools.t.settle.happened: no undo shows which of the kept places a call sets"},
      {Before() + Settle(before + ", happened: answer.body#/status"),
       "may have stood there before: say what it is by then, such as answer.body#/status != null"},
      {Before() + Settle(before + ", happened: answer.status == 200"),
       "tools.t.settle.happened: accepted: conditions on what `before` keeps"},
      {Before() + Settle(before + ", happened: { in: answer.body#/a, where: \"a == {key}\" }"),
       "a list has a request of its own"},
      {Before() + Settle(before + ", happened: 'answer.body#/state == \"VOIDED\"'"),
       "tools.t.settle.happened: answer.body#/state: before.keep does not name it"},
      {Before() + Settle(before + ", safe: true, happened: " + voided),
       "tools.t.settle.safe: the request is that of `before`"},
      {Before() + Settle(before + ", happened: [ " + voided + ", 'answer.body#/status == \"A\"' ]"),
       "warning: tools.t.settle.happened: 'answer.body#/status == \"VOIDED\"' and "
       "'answer.body#/status == \"A\"' can never hold both"},
      {Before() + Settle(before + ", happened: " + voided + ", absent: " + voided),
       "warning: tools.t.settle.absent: 'answer.body#/status == \"VOIDED\"' says both"},
      {Before() + Settle(before + ", happened: " + voided + ", absent_after: 1m"),
       "warning: tools.t.settle.absent_after: can never be applied"},
      {Before() + Settle(before + ", happened: 'answer.body#/status == \"{key}\"'"),
       "compares with the text {key} as it stands"},
  };
  for (const auto& [words, problem] : rows) {
    EXPECT_THAT(ProblemsOf(Load(words)), HasSubstr(problem)) << words;
  }
}

struct Row {
  std::string words, undo, problem;
};

TEST(SettleWordsTest, WhatIsWrongIsToldWithTheFix) {
  const std::string none = "undo: none, reason: r";
  const std::string get = "request: \"GET /t\", happened: ";
  const auto list = [&](const std::string& more) {
    return Settle(get + "{ in: answer.body#/data, where: \"a == {key}\"" + more + " }");
  };
  const auto undos = [](const std::string& second) {
    return "undo: [ { when: answer.body#/x, request: \"DELETE /t\" }, { request: \"DELETE /u\"" +
           second + " } ]";
  };
  const Row rows[] = {
      {Settle("request: \"POST /s\", happened: answer.body#/id"), none, "say safe: true"},
      {Settle("request: \"GET /s\", json: { a: 1 }, happened: answer.body#/id"), none,
       "GET and HEAD carry no body"},
      {Settle(get + "{ where: \"a == b\" }"), none, "happened.in: is missing"},
      {Settle(get + "{ in: answer.body#/data }"), none, "happened.where: is missing"},
      {Settle(get + "{ in: answer.header.X, where: \"a == b\" }"), none,
       "happened.in: accepted: answer.body#/pointer"},
      {Settle(get + "{ in: answer.body#/data, where: a }"), none,
       "happened.where: accepted: a place"},
      {list(", pages: 3"), none, "happened.pages: needs `next`"},
      {list(", next: answer.header.Link"), none, "happened.next: needs `pages`"},
      {list(", cursor: query.c"), none, "happened.cursor: needs `next`"},
      {list(", pages: 2, next: answer.header.Link, cursor: header.X"), none,
       "happened.cursor: accepted"},
      {list(", pages: 21, next: answer.header.Link"), none,
       "accepted: a whole number from 1 to 20"},
      {list(", pages: 2, next: answer.body#/c, cursor: body#/c"), none,
       "happened.cursor: the request has no `json` that is an object, and no `form`"},
      {Settle("request: \"POST /s\", safe: true, form: { a: b }, happened: { in: answer.body#/d, "
              "where: \"a == {key}\", pages: 2, next: answer.body#/c, cursor: body#/c/d }"),
       none, "happened.cursor: a form has no objects"},
      {Settle(get + "answer.body#/id, mark: header:X"), none, "settle.mark: accepted"},
      {Settle(get + "\"answer.body#/items/*/id\""), none,
       "warning: tools.t.settle.happened: answer.body#/items/*/id is taken literally"},
      {Settle(get + "\"answer.body#/by/{key}\""), none, "is taken literally"},
      {Settle(get + "answer.body#/items//id"), none, "is taken literally"},
      {Settle(get + "answer.body#/$.items/id"), none, "is taken literally"},
      {Settle(get + "answer.body#/items/-"), none, "is taken literally"},
      {Settle(get + "{ in: answer.body#/data, where: \"answer.body#/a == {key}\" }"), none,
       "happened.where: answer.body#/a is taken for a name in the element"},
      {Settle(get + "{ in: answer.body#/data, where: \"*/a == {key}\" }"), none,
       "happened.where: */a is taken literally"},
      {list(", take: $.id"), none, "happened.take: $.id is taken for a name in the element"},
      {Settle(get + "answer.body#/id, absent: 'answer.body#/ref == \"{key}\"'"), none,
       "compares with the text {key} as it stands"},
      {"", "undo: { request: \"DELETE /t/{answer.body#/items/*/id}\" }",
       "tools.t.undo: answer.body#/items/*/id is taken literally"},
      {"", "undo: { request: \"POST /t\", json: { a: \"{body#/a/-}\" } }",
       "tools.t.undo: body#/a/- is taken literally"},
      {", before: { request: \"GET /t\", keep: \"body#/items/*\" }",
       "undo: { request: \"PATCH /t\", json: { a: \"{before.body#/items/*}\" } }",
       "before.keep: body#/items/* is taken literally"},
      {", happened_if: answer.status == 422", none,
       "tools.t.happened_if: somebody else's twin gives the same error"},
      {"", "undo: []", "tools.t.undo: accepted: none"},
      {"", undos(", attempts: 3"), "tools.t.undo[1].attempts: stands in the first of them"},
      {"", "undo: [ { request: \"DELETE /t\" }, { request: \"DELETE /u\" } ]",
       "tools.t.undo[0].when: is missing"},
      {"", undos(", when: path.x"), "path.x: /t has no capture {x}"},
  };
  for (const Row& row : rows) {
    EXPECT_THAT(ProblemsOf(Load(row.words, row.undo)), HasSubstr(row.problem))
        << row.words << row.undo;
  }
}

}  // namespace
}  // namespace recourse::settle_words_test
