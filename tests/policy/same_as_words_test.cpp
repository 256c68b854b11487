// `same_as`: two doors to one service, whose calls are repeats of each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/language/loader.h"
#include "policy/model/places_read.h"
#include "tests/policy/policy_builder.h"

namespace recourse::same_as_words_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPolicy = R"(version: 1
backends:
  rest: { url: "http://rest" }
  keyed: { url: "http://keyed", key_header: Idempotency-Key }
  door: { url: "http://door/mcp", protocol: mcp }
tools:
  issues.create:
    match: POST rest /repos/{repo}/issues
    effect: write
    settle: none
    identity: [ path.repo, body#/title ]
    undo: none
    reason: r
  issues.read: { match: GET rest /issues, effect: read }
  issues.many:
    match: "tools/call door many_*"
    effect: write
    settle: none
    identity: body#/a
    undo: none
    reason: r
  asked:
    match: POST rest /asked
    effect: write
    settle: none
    identity: body#/a
    approval: { by: [ ann ] }
  pay: { match: POST keyed /pay, effect: write, identity: body#/a, agent_key: yields, reason: r }
  door.create:
    match: tools/call door issue_write
    effect: write
    settle: none
    identity: body#/title
    undo: none
    reason: r
    same_as: SAME
)";

LoadedPolicy With(const std::string& same, const std::string& more = "") {
  std::string text = kPolicy;
  text.replace(text.find("SAME"), 4, same);
  return LoadPolicyText("p.yaml", text + more);
}

TEST(SameAsWordsTest, ADoorLeadsToATool) {
  const auto loaded = With(
      "[ { tool: issues.create, when: 'body#/method == \"create\"', identity: [ body#/repo, "
      "body#/title ] } ]");
  ASSERT_EQ(ProblemsOf(loaded), "");
  const Policy& policy = *loaded.policy;
  const Tool& door = *policy.FindTool("door.create");
  ASSERT_EQ(door.same_as.size(), 1U);
  EXPECT_EQ(door.same_as[0].called, "") << "it has a path";
  EXPECT_EQ(door.same_as[0].named[0].text, "path.repo");
  EXPECT_TRUE(policy.AreDoors(door, "issues.create"));
  EXPECT_TRUE(policy.AreDoors(*policy.FindTool("issues.create"), "door.create"));
  EXPECT_FALSE(policy.AreDoors(door, "door.create"));
  EXPECT_FALSE(policy.AreDoors(door, "pay"));
  EXPECT_FALSE(policy.AreDoors(door, "gone"));
  std::string read;
  for (const Selector& place : PlacesRead(door)) read += place.text + ' ';
  EXPECT_THAT(read, HasSubstr("body#/repo"));
  EXPECT_THAT(read, HasSubstr("body#/method")) << "two readings of it would be two tools";
}

TEST(SameAsWordsTest, WhatCannotBeOneIsAnErrorWithTheFix) {
  const std::pair<std::string, std::string> cases[] = {
      {"issues.create", "same_as: accepted: { tool"},
      {"[]", "same_as: accepted: { tool"},
      {"{ identity: body#/title }", "same_as.tool: is missing"},
      {"{ tool: issues.create }", "same_as.identity: is missing"},
      {"{ tool: issues.crate, identity: [ body#/a, body#/b ] }", "did you mean 'issues.create'?"},
      {"{ tool: issues.create, identity: body#/title }",
       "names 1 places, and the identity of issues.create has 2"},
      {"{ tool: issues.create, identity: [ body#/a, answer.body#/b ] }",
       "only the request is known"},
      {"{ tool: issues.create, identity: [ path.a, body#/b ] }", "a call by name has no path"},
      {"{ tool: issues.create, when: answer.status == 1, identity: [ body#/a, body#/b ] }",
       "only the request is known"},
      {"{ tool: door.create, identity: body#/title }", "names itself"},
      {"{ tool: issues.read, identity: body#/title }", "issues.read is a read"},
      {"{ tool: issues.many, identity: body#/title }", "stands for several tools of its server"},
      {"{ tool: asked, identity: body#/title }", "asked needs approval, and this door to the same"},
      {"{ tool: pay, identity: body#/title }", "pay has a key of its backend"},
  };
  for (const auto& [same, problem] : cases) {
    const auto loaded = With(same);
    EXPECT_FALSE(loaded.ok()) << same;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(problem)) << same;
  }
  const std::string whole =
      "  whole: { match: POST rest /whole, effect: write, settle: none, identity: all, reason: r "
      "}\n";
  EXPECT_THAT(ProblemsOf(With("{ tool: whole, identity: body#/title }", whole)),
              HasSubstr("all arguments of whole are its key, which no other door can name"));
  const std::string door =
      "  door.other: { match: tools/call door other, effect: write, settle: none, identity: "
      "body#/title, undo: none, reason: r, same_as: { tool: door.create, identity: body#/title } "
      "}\n";
  EXPECT_THAT(ProblemsOf(With("{ tool: issues.create, identity: [ body#/a, body#/b ] }", door)),
              HasSubstr("door.create is such a door itself"));
  std::string scoped = "{ tool: issues.create, identity: [ body#/a, body#/b ] }\n    scope: caller";
  EXPECT_THAT(ProblemsOf(With(scoped)), HasSubstr("has another `scope`"));
}

}  // namespace
}  // namespace recourse::same_as_words_test
