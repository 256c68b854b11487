// What is said of words that somebody misspelled: what was meant, and nothing that only follows
// from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::misspelled_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Load(const std::string& yaml) { return ProblemsOf(LoadPolicyText("p.yaml", yaml)); }

const std::string kHead = "version: 1\nbackends: { b: { url: \"http://b\" } }\n";

std::string WithWords(const std::string& words) {
  return kHead + "tools:\n  t: { match: POST b /t, effect: write, " + words + " }\n";
}

TEST(MisspelledTest, AMisspelledWordIsNotCalledMissing) {
  EXPECT_EQ(Load(WithWords("undo: none, reason: r, identiy: body#/a")).find("p.yaml:4:"), 0U);
  EXPECT_THAT(Load(WithWords("undo: none, reason: r, identiy: body#/a")),
              Not(HasSubstr("identity: is not given")));
  const std::string undo = Load(WithWords("udno: none, reason: r"));
  EXPECT_THAT(undo, HasSubstr("tools.t.udno: unknown key, did you mean 'undo'?"));
  EXPECT_THAT(Load(WithWords("undo: none, raeson: r")), Not(HasSubstr("needs a human before it")));
  const std::string match =
      Load(kHead + "tools:\n  t: { mtach: POST b /t, effect: write, reason: r }\n");
  EXPECT_THAT(match, HasSubstr("did you mean 'match'?"));
  EXPECT_THAT(match, Not(HasSubstr("is missing")));
}

TEST(MisspelledTest, WhoseEffectIsMisspelledIsToldThatAlone) {
  for (const std::string words : {"effect: reed", "efect: read", "efect: write"}) {
    const std::string told = Load(kHead + "tools:\n  t: { match: GET b /t, " + words + " }\n");
    EXPECT_THAT(told, HasSubstr("did you mean")) << words;
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  }
}

TEST(MisspelledTest, WhatNamesAMisspelledSectionIsNotToBlame) {
  const std::string told =
      Load(kHead +
           "tolls:\n  t: { match: POST b /t, effect: write, undo: none, reason: r }\n"
           "flows: { f: { tools: [ t ] } }\n");
  EXPECT_THAT(told, HasSubstr("tolls: unknown key, did you mean 'tools'?"));
  EXPECT_THAT(told, Not(HasSubstr("no tool is called")));
}

TEST(MisspelledTest, ASectionThatIsThereAsWellIsRead) {
  EXPECT_THAT(Load(WithWords("reason: r") + "tolls: {}\nflows: { f: { tools: [ u ] } }\n"),
              HasSubstr("no tool is called 'u'"));
}

TEST(MisspelledTest, ErrorsComeBeforeWarnings) {
  const std::string told =
      Load(kHead +
           "tools:\n  t: { match: POTS b /t, effect: write, undo: none, reason: r }\n"
           "quotas: 1\n");
  EXPECT_LT(told.find("p.yaml:5:9: error: quotas"), told.find("POTS is no usual method")) << told;
}

TEST(MisspelledTest, APlaceIsToldAsItWasProbablyMeant) {
  const auto told = [](const std::string& place) {
    return Load(WithWords("undo: none, reason: r, identity: '" + place + "'"));
  };
  EXPECT_THAT(told("body.cart_id"),
              HasSubstr("tools.t.identity: 'body.cart_id' is no place, did you mean "
                        "'body#/cart_id'?; accepted: body#/pointer, path.name, query.name, "
                        "header.Name\n"));
  EXPECT_THAT(told("body/cart/id"), HasSubstr("did you mean 'body#/cart/id'?"));
  EXPECT_THAT(told("body.cart.id"), HasSubstr("did you mean 'body#/cart/id'?"));
  EXPECT_THAT(told("body#cart"), HasSubstr("did you mean 'body#/cart'?"));
  EXPECT_THAT(told("$.cart.id"), HasSubstr("did you mean 'body#/cart/id'?"));
  EXPECT_THAT(told("$.lines[0].sku"), HasSubstr("did you mean 'body#/lines/0/sku'?"));
  EXPECT_THAT(told("body.lines[0].sku"), HasSubstr("did you mean 'body#/lines/0/sku'?"));
  EXPECT_THAT(told("$[\"cart\"].id"), HasSubstr("did you mean 'body#/cart/id'?"));
  EXPECT_THAT(told("$.lines[*].sku"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(Load(WithWords("undo: none, reason: r, external_ref: $.id")),
              HasSubstr("did you mean 'answer.body#/id'?"));
  EXPECT_THAT(told("cart"), HasSubstr("'cart' is no place; accepted: body#/pointer"));
  EXPECT_THAT(Load(WithWords("undo: none, reason: r, external_ref: answer.body.id")),
              HasSubstr("did you mean 'answer.body#/id'?; accepted: answer.body#/pointer"));
  EXPECT_THAT(Load(WithWords("undo: none, reason: r, success_when: answer.body.ok == true")),
              HasSubstr("did you mean 'answer.body#/ok'?; accepted: answer.body#/pointer"));
}

TEST(MisspelledTest, APathThatIsARegularExpressionIsToldWhatToUseInstead) {
  for (const std::string path : {"/orders/[0-9]+", "/orders/(.*)", "/orders/*", "/a/\\\\d+",
                                 "^/orders/1$", "/orders/:id", "/orders/<id>"}) {
    EXPECT_THAT(
        Load(kHead + "tools:\n  t: { match: \"GET b " + path + "\", effect: read }\n"),
        HasSubstr(": no regular expressions and no other wildcards; use /orders/{id} for one "
                  "segment of any value, or /** at the end"))
        << path;
  }
}

TEST(MisspelledTest, TheBadPlaceOfATemplateIsQuoted) {
  EXPECT_THAT(
      Load(WithWords("undo: { request: 'DELETE /t/{external_ref}?c={body.cart as text}' }")),
      HasSubstr("tools.t.undo.request: {body.cart} is no place, did you mean "
                "'body#/cart'?; accepted: "));
}

TEST(MisspelledTest, AProtocolThatIsNoneLeavesItsToolsAlone) {
  const std::string told = Load(
      "version: 1\nbackends:\n  b: { url: \"http://b.example/graphql\", protocol: grahpql }\n"
      "tools:\n  t: { match: mutation b make, effect: write, undo: none, reason: r }\n");
  EXPECT_THAT(told, HasSubstr("backends.b.protocol: not one of its values, did you mean"));
  EXPECT_THAT(told, Not(HasSubstr("is no GraphQL server")));
}

TEST(MisspelledTest, APlaceIsToldInTheWordsOfItsMessage) {
  const std::string base = "undo: none, reason: r, ";
  const std::pair<std::string, std::string> rows[] = {
      {"external_ref: answer.data#/make/id", "did you mean 'answer.body#/data/make/id'?"},
      {"external_ref: answer.id", "did you mean 'answer.body#/id'?"},
      {"external_ref: answer.headers.Location", "did you mean 'answer.header.Location'?"},
      {"identity: variables#/id",
       "did you mean 'body#/id'? (body# has a mutation's arguments, of a "
       "backend with `protocol: graphql`;"},
      {"identity: header:X-Ref", "did you mean 'header.X-Ref'?"},
      {"identity: body#/a~b", "did you mean 'body#/a~0b'? (in a pointer ~0 stands for '~'"},
      {"ignore: /a~b", "with ~0 for '~' and ~1 for '/' in a name"},
      {"success_when: 200", "'200' is no condition, did you mean 'answer.status == 200'?"},
      {"success_when: status == 200", "did you mean 'answer.status'?"},
      {"success_when: body#/ok == true", "did you mean 'answer.body#/ok'?"},
      {"success_when: answer.body#/ok = true", "'=' is none, did you mean '=='?"},
      {"success_when: answer.body#/ok == yes", "did you mean 'answer.body#/ok == \"yes\"'?"},
      {"deny: 'body#/a == 1 or body#/b == 2'", "several conditions are a list: [ 'body#/a"},
      {"deny: true", "deny: accepted: a condition such as body#/amount > 1000"},
      {"deny: { when: body#/a }", "deny: accepted: a condition such as body#/amount > 1000"},
      {"not_executed: answer.body#/x", "conditions on the answer are `failed_when`"},
      {"happened_if: 409", "did you mean 'answer.status == 409'?"},
      {"approval: team", "a map is accepted here: { by: [ team-support ] }"},
      {"settle: \"GET /t\"", "a map is accepted here: { request: "},
  };
  for (const auto& [words, problem] : rows) {
    const std::string told = Load(WithWords(base + words));
    EXPECT_THAT(told, HasSubstr(problem)) << words;
    EXPECT_EQ(told.find("p.yaml:4:"), 0U) << told;
  }
}

// A list says one of the two: as the other it would let calls pass that somebody was to see.
TEST(MisspelledTest, AJoinedConditionIsToldWhatItsListSays) {
  const std::pair<std::string, std::string> rows[] = {
      {"approval: { by: a, when: 'body#/a > 1 or body#/b == 2' }",
       "when: 'or' joins nothing here; of a list all must hold: leave `when` out"},
      {"approval: { by: a, when: [ body#/c, 'body#/a > 1 || body#/b == 2' ] }",
       "when[1]: '||' joins nothing here; of a list all must hold: leave `when` out"},
      {"approval: { by: a, when: 'body#/a > 1 and body#/b == 2' }",
       "several conditions are a list: [ 'body#/a == 1', 'body#/b == 2' ], of which all must hold"},
      {"success_when: 'answer.body#/a == 1 or answer.body#/b == 2'",
       "of a list all must hold: name one condition"},
      {"allow: 'body#/a == 1 && body#/b == 2'", "of which all must hold"},
      {"deny: 'body#/a == 1 or body#/b == 2'", "of which one is enough"},
      {"deny: 'body#/a == 1 and body#/b == 2'",
       "of a list one is enough: name one condition that says it alone"},
      {"failed_when: 'answer.body#/a == 1 and answer.body#/b == 2'", "of a list one is enough"},
  };
  for (const auto& [words, problem] : rows) {
    const std::string told = Load(WithWords("undo: none, reason: r, " + words));
    EXPECT_THAT(told, HasSubstr(problem)) << words;
    if (problem.contains("of a list")) EXPECT_EQ(told.find("are a list"), told.npos) << told;
  }
}

TEST(MisspelledTest, WhatNoCallCanHaveIsWarnedOf) {
  const std::string base = "undo: none, settle: none, reason: r, ";
  const std::string index = "an index of a list has no leading zero: items/0";
  EXPECT_THAT(Load(WithWords(base + "identity: body#/items/00/id")), HasSubstr(index));
  EXPECT_THAT(Load(WithWords(base + "external_ref: answer.body#/items/01")), HasSubstr(index));
  EXPECT_THAT(Load(WithWords(base + "ignore: /items/00/at")), HasSubstr(index));
  EXPECT_THAT(Load(WithWords(base + "identity: body#/items/0/id")), Not(HasSubstr(index)));
  const std::string dash = Load(WithWords(base + "identity: body#/items/-/id"));
  EXPECT_THAT(dash, HasSubstr("a pointer has names and indices alone"));
  EXPECT_THAT(dash, Not(HasSubstr("happened"))) << "no identity is looked for in a list";
}

TEST(MisspelledTest, WordsOfAProtocolThatIsNotSpoken) {
  const std::string told = "only a backend with `protocol: graphql` has variables";
  const std::string base = "undo: none, reason: r, ";
  EXPECT_THAT(Load(WithWords(base + "key_at: variables#/id")),
              HasSubstr("p.yaml:4:64: error: tools.t.key_at: 'variables#/id': " + told));
  EXPECT_THAT(Load("version: 1\nbackends: { b: { url: \"http://b\", key_at: variables#/id } }\n"),
              HasSubstr(told));
  EXPECT_THAT(Load(WithWords(base + "settle: { request: \"GET /t?k={key}\", happened: "
                                    "answer.body#/id, mark: variables#/id }")),
              HasSubstr(told));
  EXPECT_THAT(Load("version: 1\nbackends: { g: { url: \"http://g/q\", protocol: graphql, key_at: "
                   "variables#/id } }\n"),
              Not(HasSubstr("error")));
  const auto matched = [](const std::string& match) {
    return Load(
        "version: 1\nbackends: { g: { url: \"http://g/q\", protocol: graphql } }\n"
        "tools: { t: { match: " +
        match + ", effect: read } }\n");
  };
  EXPECT_THAT(matched("query g issues"),
              HasSubstr("queries of a GraphQL server are reads and pass"));
  EXPECT_THAT(matched("subscription g issues"), HasSubstr("leave this tool out"));
  EXPECT_THAT(matched("Mutation g make"), HasSubstr("did you mean 'mutation'?"));
  EXPECT_THAT(Load("version: 1\nbackends: { g: { url: \"http://g/q\", protocol: GraphQL } }\n"),
              HasSubstr("did you mean 'graphql'?"));
  EXPECT_THAT(Load("version: 1\nbackends: { g: { url: \"http://g/q\", protocol: gql } }\n"),
              HasSubstr("did you mean 'graphql'?; accepted: http, mcp, graphql"));
  EXPECT_THAT(Load("version: 1\nbackends: { g: { url: \"http://g/q\", protocol: grpc } }\n"),
              Not(HasSubstr("did you mean")));
}

TEST(MisspelledTest, AFormOfKeysIsToldAsItWasProbablyMeant) {
  const std::pair<std::string, std::string> rows[] = {
      {"UUID", "did you mean 'uuid'?; accepted: uuid, alnum:25"},
      {"guid", "did you mean 'uuid'?"},
      {"uuidv4", "did you mean 'uuid'?"},
      {"hex", "did you mean 'hex:64'?"},
      {"Alnum:45", "did you mean 'alnum:45'?"},
      {"base32:26", "'base32:26': accepted: uuid"},
      {"alnum:9", "'alnum:9': accepted: uuid"},
  };
  for (const auto& [form, problem] : rows) {
    EXPECT_THAT(Load(WithWords("undo: none, reason: r, key_at: \"header:X-Key\", key_form: \"" +
                               form + "\"")),
                HasSubstr(problem))
        << form;
  }
}

TEST(MisspelledTest, AStatusIsToldAsItWasProbablyMeant) {
  const auto told = [](const std::string& word, const std::string& status) {
    return Load(WithWords("reason: r, " + word + ": [ \"" + status + "\" ]"));
  };
  for (const std::string status : {"4XX", "4**", "4xX"}) {
    EXPECT_THAT(
        told("not_executed", status),
        HasSubstr("'" + status + "' is no status, did you mean '4xx'?; accepted: statuses"));
  }
  EXPECT_THAT(told("not_executed", "500..504"), HasSubstr("did you mean '500-504'?"));
  EXPECT_THAT(told("not_executed", "500 - 504"), HasSubstr("did you mean '500-504'?"));
  EXPECT_THAT(told("not_executed", "6XX"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(Load(WithWords("undo: { request: \"DELETE /t/{external_ref}\", done: 2XX }")),
              HasSubstr("did you mean '2xx'?; accepted: statuses such as 404, 2xx or 500-504, or a "
                        "condition"));
  const std::string problem =
      "' is a class of statuses, and a condition compares with one of them: ";
  EXPECT_THAT(told("success_when", "2xx"), HasSubstr("'2xx" + problem + "answer.status < 300"));
  EXPECT_THAT(told("happened_if", "answer.status == 4XX"),
              HasSubstr("'4XX" + problem + "answer.status >= 400"));
  EXPECT_THAT(told("deny", "4xx"), HasSubstr("'4xx' is no place")) << "a call has no status";
}

TEST(MisspelledTest, OneMistakeOfAKeyIsOneError) {
  const std::string base = "undo: none, settle: none, reason: r, ";
  for (const std::string words :
       {"key_form: guid", "key_lives: 24h", "key_lives: 24h, key_form: uuid",
        "key_at: X-Key, key_lives: 24h", "key_att: header:X-Key, key_lives: 24h"}) {
    const std::string told = Load(WithWords(base + words));
    EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
    EXPECT_THAT(told, Not(HasSubstr("key_header"))) << told;
  }
  EXPECT_THAT(Load(WithWords(base + "key_lives: 24h")),
              HasSubstr("says how long the key at `key_at` is honoured, and there is none; say "
                        "where it goes: key_at: header:Idempotency-Key"));
  EXPECT_THAT(Load(WithWords("undo: none, reason: r, settled_by: { request: \"POST /j\", until: "
                             "answer.body#/done }")),
              Not(HasSubstr("settle request")));
}

TEST(MisspelledTest, ASecretIsKeptOutOfTheFile) {
  EXPECT_THAT(Load("version: 1\nbackends: { b: { url: \"https://b\", credentials: { Authorization: "
                   "\"Bearer x\" } } }\n"),
              HasSubstr("{ file: /run/secrets/token, prefix: \"Bearer \" }: no secret stands"));
}

TEST(MisspelledTest, AGroupOfPodsThatIsMisspelledIsOneError) {
  const std::string told = Load(
      "version: 1\nledger: { url: \"postgres://u@db/x\", grup: a }\n"
      "backends: { b: { url: \"http://127.0.0.1:1\" } }\n");
  EXPECT_THAT(told, HasSubstr("ledger.grup: unknown key, did you mean 'group'?"));
  EXPECT_THAT(told, Not(HasSubstr("ledger.group")));
}

}  // namespace
}  // namespace recourse::misspelled_test
