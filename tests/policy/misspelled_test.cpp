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

TEST(MisspelledTest, AGroupOfPodsThatIsMisspelledIsOneError) {
  const std::string told = Load(
      "version: 1\nledger: { url: \"postgres://u@db/x\", grup: a }\n"
      "backends: { b: { url: \"http://127.0.0.1:1\" } }\n");
  EXPECT_THAT(told, HasSubstr("ledger.grup: unknown key, did you mean 'group'?"));
  EXPECT_THAT(told, Not(HasSubstr("ledger.group")));
}

}  // namespace
}  // namespace recourse::misspelled_test
