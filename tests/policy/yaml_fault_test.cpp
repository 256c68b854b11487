#include "policy/files/yaml_fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "policy/files/excerpt.h"
#include "policy/language/loader.h"
#include "tests/policy/policy_builder.h"

namespace recourse::yaml_fault_test {
namespace {

using ::testing::StartsWith;

std::string FaultOf(const std::string& yaml, int failed_line = 1'000) {
  const auto fault = FindYamlFault(yaml, failed_line);
  if (!fault) return {};
  return std::to_string(fault->line) + ":" + std::to_string(fault->column) + ": " + fault->message;
}

const std::string kHead = "version: 1\nbackends:\n  b: { url: \"http://b\" }\ntools:\n";

TEST(YamlFault, AQuoteThatIsNotClosedIsToldWhereItBegins) {
  EXPECT_THAT(FaultOf("version: 1\nmode: \"enforce\nunlisted: { reads: pass }\n"),
              StartsWith("2:7: this quote (\") is not closed"));
  EXPECT_THAT(FaultOf("mode: 'enforce\n"), StartsWith("1:7: this quote (') is not closed"));
  // What follows as its end, lines later, begins another one.
  EXPECT_THAT(FaultOf(kHead + "  t:\n    undo: { request: \"DELETE /x }\n    reason: \"none\"\n"),
              StartsWith("6:22: this quote (\") is not closed"));
  EXPECT_THAT(FaultOf("a: { b: \"x, c: \"y\" }\n"),
              StartsWith("1:17: a ',' is missing between the closing quote and this"));
}

TEST(YamlFault, ABracketThatIsNotClosedIsToldWhereItOpens) {
  EXPECT_EQ(FaultOf(kHead + "  t:\n    undo: { request: \"DELETE /x\"\n    effect: write\n"),
            "6:11: this '{' is not closed; its '}' is missing");
  EXPECT_EQ(FaultOf("a:\n  b: [ 1, 2\nc: 3\n"), "2:6: this '[' is not closed; its ']' is missing");
  EXPECT_EQ(FaultOf("a: { done: [ 2xx, 404 }\nb: 1\n"),
            "1:12: this '[' is not closed; its ']' is missing");
  EXPECT_EQ(FaultOf("a: { b: 1 }}\n"), "1:12: this '}' closes nothing");
  EXPECT_EQ(FaultOf("a: { b: 1 }\n}\n"), "2:1: this '}' closes nothing");
}

TEST(YamlFault, AnIndentThatFitsNothingIsToldInItsOwnLine) {
  EXPECT_THAT(FaultOf(kHead + "  t:\n    match: POST b /x\n      effect: write\n"),
              StartsWith("7:7: deeper than line 6, which has its value already"));
  EXPECT_THAT(FaultOf(kHead + "  t:\n    match: POST b /x\n   effect: write\n"),
              StartsWith("7:4: 3 spaces before it fit no line above; accepted: 0 as line 4, 2 as "
                         "line 5, 4 as line 6"));
  EXPECT_THAT(FaultOf("a:\n  - b\n  c: 1\n"), StartsWith("3:3: a key among list items (line 2)"));
  EXPECT_THAT(FaultOf("a:\n  b: 1\n  - c\n"), StartsWith("3:3: a list item among keys (line 2)"));
}

TEST(YamlFault, TheFirstOfABlockIsToldWhenTheOthersStandAlike) {
  const std::string other = "  u:\n    match: GET b /u\n    effect: read\n";
  const std::string wanted =
      " spaces before it, but 4 before the lines below that belong to the same";
  EXPECT_EQ(FaultOf(kHead + "  t:\n     match: GET b /x\n    effect: read\n" + other),
            "6:6: 5" + wanted);
  EXPECT_EQ(FaultOf(kHead + "  t:\n   match: GET b /x\n    effect: read\n" + other),
            "6:4: 3" + wanted);
  EXPECT_EQ(FaultOf(kHead + "  t:\n   match: GET b /x\n    effect: read\n    timeout: 1s\n"),
            "6:4: 3" + wanted);
  EXPECT_EQ(FaultOf("  version: 1\nmode: observe\n" + kHead.substr(kHead.find('b'))),
            "1:3: 2 spaces before it, but 0 before the lines below that belong to the same");
}

TEST(YamlFault, OneOfManyThatStandsElsewhereIsToldItself) {
  const std::string tool = "t:\n    match: GET b /x\n    effect: read\n";
  EXPECT_THAT(FaultOf(kHead + "  " + tool + " u" + tool + "  v" + tool),
              StartsWith("8:2: 1 spaces before it fit no line above"));
  EXPECT_THAT(FaultOf(kHead + "  " + tool + " flows:\n  f: { tools: [ t ] }\n"),
              StartsWith("8:2: 1 spaces before it fit no line above"));
}

TEST(YamlFault, ALineWithoutAColonIsToldThoughTheNextOneIsWhatTheParserMinds) {
  for (const char* line : {"match GET b /x", "match:GET b /x"}) {
    EXPECT_THAT(FaultOf(kHead + "  t:\n    " + line + "\n    effect: read\n"),
                StartsWith("6:5: no key: "));
  }
  EXPECT_THAT(FaultOf("a: { b [ 1 ] }\n"), StartsWith("1:8: a ':' or a ',' is missing before"));
  EXPECT_THAT(FaultOf("a: { b: x/{id} }\n"), StartsWith("1:11: a ':' or a ',' is missing before"));
}

TEST(YamlFault, AColonOrACommaTooFewOrTooMany) {
  EXPECT_THAT(FaultOf("version: 1\nmode enforce\nunlisted: {}\n"), StartsWith("2:1: no key: "));
  EXPECT_THAT(FaultOf("a:\n  reason: see: that\n"), StartsWith("2:14: a second ': ' in one line"));
  EXPECT_THAT(FaultOf("a: { b: 1 c: 2 }\n"), StartsWith("1:12: a second ': ' before a ','"));
  EXPECT_THAT(FaultOf("a: \"b\" c\n"), StartsWith("1:8: text after the closing quote"));
  EXPECT_THAT(FaultOf("a: @b\n"), StartsWith("1:4: a value cannot begin with '@'"));
  EXPECT_THAT(FaultOf("a: - b\n"), StartsWith("1:4: a list item behind a key"));
}

TEST(YamlFault, WhatIsLeftOutIsTheEntryOfTheSection) {
  const auto fault = FindYamlFault(
      kHead + "  t:\n    match: POST b /x\n   effect: write\n    undo: none\n  u: {}\n", 7);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->section, "tools");
  EXPECT_EQ(fault->first_line, 5);
  EXPECT_EQ(fault->last_line, 8);
}

TEST(YamlFault, NothingIsFoundBehindTheLineThatTheParserGaveUpAt) {
  EXPECT_EQ(FaultOf("a: \"\\q\"\nb: [\n", 1), "");
}

TEST(YamlFault, NothingIsFoundInWhatIsSound) {
  for (const char* sound :
       {"a: it's a plain text\nb: {c: don't, d: [x, 'it''s', \"\\\"\"]}\n",
        "a:\n- b: 1\n  c: 2\n- d\n", "a: |\n  {[\"\n   x: : y\n\n  z\nb: >-\n  'q\n",
        "a: one\n  two\n  three\nb: \"one\n  two\"\n",
        "a: {\n  b: 1, # } \"\n  c: [ 1,\n    2 ]\n}\n",
        "a: { url: http://b, \"c\":1, t: 12:30 }\nb: http://c:80/x#y # \"z\n",
        "- - a\n  - b\n- c\n", "'a b': 1\n\"c\": 2\n",
        "a:\n  b:\n    c: 1\nd:\n  - e: { f: 1 }\n    g: 2\n"}) {
    EXPECT_EQ(FaultOf(sound), "") << sound;
  }
}

TEST(YamlFault, AnExcerptShowsTheLineAndWhereInIt) {
  PolicyProblem problem;
  problem.line = 2;
  problem.column = 7;
  EXPECT_EQ(ExcerptFor(problem, "version: 1\nmode: [enforce\n"),
            "     2 | mode: [enforce\n       |       ^\n");
  EXPECT_EQ(ExcerptFor(problem, "a\nm\xc3\xb6: \x1b[2J x"),
            "     2 | m?: ?[2J x\n       |      ^\n");
  problem.column = 200;
  const std::string shown = ExcerptFor(problem, "a\n" + std::string(500, 'x'));
  EXPECT_EQ(shown.find('^') - shown.find('\n'), 1 + 9 + 60U) << shown;
  problem.line = 9;
  EXPECT_EQ(ExcerptFor(problem, "a\nb\n"), "");
  problem.line = 0;
  EXPECT_EQ(ExcerptFor(problem, "a\nb\n"), "");
}

TEST(YamlFault, NothingIsFoundInThePoliciesThatComeWithIt) {
  int files = 0;
  for (const char* folder : {"policy/examples", "policy/packs", "tests/e2e/demo"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".yaml") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      EXPECT_EQ(FaultOf(text.str()), "") << entry.path();
      ++files;
    }
  }
  EXPECT_GT(files, 5);
}

TEST(YamlFault, WhatCannotBeReadIsToldAloneAndTheRestAsEver) {
  const auto problems = [](const std::string& yaml) {
    return ProblemsOf(LoadPolicyText("p.yaml", yaml));
  };
  const std::string head = "version: 1\nbackends:\n  b: { url: \"http://b\" }\ntools:\n";
  // Neither the tool nor the flow that names it is complained of; the next tool is.
  const std::string told =
      problems(head +
               "  t:\n    match: POST b /x\n   effect: write\n  u: { match: GET b /y }\n"
               "flows: { f: { tools: [ t ] } }\ntests: [ { call: \"GET b /x\" } ]\n");
  EXPECT_EQ(told,
            "p.yaml:7:4: error: 3 spaces before it fit no line above; accepted: 0 as line 4, 2 as "
            "line 5, 4 as line 6\n"
            "p.yaml:8:6: error: tools.u.effect: is missing; accepted: read or write\n");
  // Two of them, and who names the backend that is gone is not to blame.
  EXPECT_EQ(problems("version: 1\nbackends:\n  b: { url: \"http://b }\n  c: { url: \"http://c\" }\n"
                     "tools:\n  t: { match: POST b /x, effect: write, undo: none, reason: no\n"
                     "  u: { match: POST b /y }\n"),
            "p.yaml:3:13: error: this quote (\") is not closed\n"
            "p.yaml:6:6: error: this '{' is not closed; its '}' is missing\n");
  // The end of the file is none of a quote, nor are the tools before it its text.
  for (const char quote : {'"', '\''}) {
    EXPECT_EQ(
        problems(head +
                 "  t:\n    match: POST b /x\n    effect: write\n    undo: none\n    reason: " +
                 quote + "it is\n  u:\n    match: GET b /y\n    effect: reed\n"),
        std::string("p.yaml:9:13: error: this quote (") + quote +
            ") is not closed\np.yaml:12:13: error: tools.u.effect: not one of its values, did you "
            "mean 'read'?; accepted: read, write\n");
  }
  // A section that is empty without it, and one of the whole policy.
  EXPECT_EQ(
      problems("version: 1\ntools:\n  t: { a: [ }\nledger:\n  retention: 1d: 2\n"),
      "p.yaml:3:11: error: this '[' is not closed; its ']' is missing\n"
      "p.yaml:5:16: error: a second ': ' in one line; put the value in quotes, or the key into a "
      "line of its own\n");
  // An entry that became a neighbour of its own lines, and a section that did.
  const std::string two = "  t:\n    match: GET b /x\n    effect: read\n";
  EXPECT_EQ(
      problems(head + two + "    u:\n    match: GET b /y\n    effect: read\n" +
               "flows: { f: { tools: [ u ] } }\n"),
      "p.yaml:8:5: error: tools.t.u: has no value, and match below it is given twice; does it "
      "stand too far right?\n");
  EXPECT_EQ(
      problems("version: 1\n  backends:\n  b: { url: \"http://b\" }\ntools:\n" + two),
      "p.yaml:2:3: error: deeper than line 1, which has its value already; give it the indent "
      "of the keys that it belongs to\n");
  EXPECT_EQ(
      problems(head + two + "  flows:\n  f: { tools: [ t ] }\n" + "tests: [ { call: 1 } ]\n"),
      "p.yaml:8:3: error: tools.flows: belongs to the whole policy; write it at the beginning "
      "of the line\n");
  EXPECT_EQ(
      problems(head + "    t:\n    match: GET b /x\n    effect: read\n  u: { effect: read, "
                      "match: GET b /y }\n  v: { effect: read, match: GET b /z }\n"),
      "p.yaml:5:5: error: 4 spaces before it, but 2 before the lines below that belong to the "
      "same\n");
  EXPECT_THAT(problems(" version: 1\nmode: enforce\n" + head.substr(11)),
              StartsWith("p.yaml:1:2: error: 1 space before it, but 0 before the lines below"));
  EXPECT_EQ(problems("version 1\nbackends: {}\n"),
            "p.yaml:1:1: error: no key: a line here is `key: value`; is a ': ' missing?\n");
}

}  // namespace
}  // namespace recourse::yaml_fault_test
