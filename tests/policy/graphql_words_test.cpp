// `protocol: graphql` in the policy: fields of mutations, documents as undo and settle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "policy/explain/explain.h"
#include "policy/language/loader.h"
#include "policy/model/route_table.h"
#include "tests/policy/policy_builder.h"

namespace recourse::graphql_words_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kBackends = R"(version: 1
backends:
  linear: { url: "http://linear/graphql", protocol: graphql, persisted: { "7": "{ a }" } }
  shop: { url: "http://shop" }
  files: { url: "http://files/mcp", protocol: mcp }
tools:
)";
constexpr const char* kCreate = R"(
  issues.create:
    match: mutation linear issueCreate
    effect: write
    identity: body#/input/title
    external_ref: answer.body#/data/issueCreate/issue/id
    settle:
      graphql: "query($t: String) { issues(title: $t) { id } }"
      variables: { t: "{body#/input/title}" }
      happened: answer.body#/data/issues/0/id
    undo:
      graphql: "mutation($id: ID!) { issueDelete(id: $id) { success } }"
      variables: { id: "{external_ref}" }
)";

TEST(GraphqlWordsTest, AMutationIsATool) {
  const auto policy = LoadGood(std::string(kBackends).substr(11) + kCreate);
  const Tool& tool = policy->tools[0];
  EXPECT_THAT(tool.mutations, ElementsAre("issueCreate"));
  EXPECT_EQ(policy->backends[0].endpoint, "/graphql");
  EXPECT_EQ(policy->routes->FindCalledTool(policy->backends[0], "issueCreate"), &tool);
  EXPECT_EQ(policy->routes->FindCalledTool(policy->backends[0], "issuecreate"), nullptr);
  EXPECT_EQ(tool.undo->request.method, "POST");
  EXPECT_EQ(tool.undo->request.calls, "issueDelete");
  ASSERT_EQ(tool.undo->done_when.size(), 1U);
  EXPECT_EQ(tool.undo->done_when[0].text, "answer.body#/data/issueDelete != null");
  CallValues values;
  values.external_ref = "i\"7";
  const auto undo = Render(tool.undo->request, values);
  ASSERT_TRUE(undo);
  EXPECT_EQ(undo->target, "/graphql");
  EXPECT_EQ(undo->body, R"({"query":"mutation($id: ID!) { issueDelete(id: $id) { success } }",)"
                        R"("variables":{"id":"i\"7"}})");
}

TEST(GraphqlWordsTest, WhatCannotBeIsAnErrorWithItsPlace) {
  const auto write = [](std::string_view words) {
    return "  t:\n    match: mutation linear a\n    effect: write\n    reason: r\n" +
           std::string(words);
  };
  const std::pair<std::string, std::string_view> cases[] = {
      {"  t: { match: mutation shop a, effect: read }\n", "backend shop is no GraphQL server"},
      {"  t: { match: mutation linear a-b, effect: read }\n", "no name of a field"},
      {"  t: { match: tools/call linear a, effect: read }\n", "backend linear is no MCP server"},
      {"  t: { match: POST linear /graphql, effect: read }\n", "the endpoint of GraphQL server"},
      {"  t: { match: [ mutation linear a, POST linear /x ], effect: read }\n", "do not go"},
      {write("    undo: { request: \"DELETE /a\" }\n"), "is for other servers"},
      {write("    undo: { graphql: \"{ a }\" }\n"), "a mutation is accepted here"},
      {write("    undo: { graphql: \"mutation { a b }\" }\n"), "of one field"},
      {write("    undo: { graphql: \"mutation { x: a }\" }\n"), "without an alias"},
      {write("    undo: { graphql: \"mutation { a(\" }\n"), "line 1, column 14"},
      {write("    undo: { graphql: \"mutation { a }\", json: { x: 1 } }\n"), "`variables`"},
      {write("    settle: { graphql: \"mutation { a }\", happened: answer.body#/x }\n"),
       "a query is accepted here"},
      {write("    key_at: body#/input/id\n"),
       "accepted: header:Idempotency-Key, variables#/input/id, document@idempotent(key)"},
      {write("    key_at: document@idempotent\n"), "written with its argument"},
      {write("    key_at: document@a-b(key)\n"), "have names"},
      {"  t: { match: POST shop /a, effect: write, reason: r, key_at: document@idempotent(key) }\n",
       "only mutations of a backend"},
      {"  t: { match: mutation linear a, effect: write, undo: { graphql: \"mutation { a @i(k: 1) "
       "}\", key_at: document@i(k), repeatable: by_key } }\n",
       "a key is a text"},
      {write("    identity: path.id\n"), "a call by name has no path"},
      {write("    answer: stream\n"), "is for paths"},
      {"  t: { match: POST shop /a, effect: write, reason: r, undo: { graphql: \"mutation { a }\" "
       "} "
       "}\n",
       "is for tools of a GraphQL server"},
  };
  for (const auto& [tools, problem] : cases) {
    const auto loaded = LoadPolicyText("p.yaml", kBackends + tools);
    EXPECT_FALSE(loaded.ok()) << tools;
    EXPECT_THAT(ProblemsOf(loaded), HasSubstr(problem)) << tools;
  }
}

TEST(GraphqlWordsTest, PlacesThatNoAnswerCanHaveAreTold) {
  const auto problems = [](std::string change, std::string to) {
    std::string tools = kCreate;
    tools.replace(tools.find(change), change.size(), to);
    return ProblemsOf(LoadPolicyText("p.yaml", kBackends + tools));
  };
  EXPECT_THAT(problems("happened: answer.body#/data/issues/0/id",
                       "happened: answer.body#/data/issues/0/key"),
              HasSubstr("warning: tools.issues.create.settle: answer.body#/data/issues/0/key can "
                        "never match: the document does not select it"));
  EXPECT_THAT(problems("happened: answer.body#/data/issues/0/id",
                       "happened: { in: answer.body#/data/issues, where: \"title == "
                       "{body#/input/title}\" }"),
              HasSubstr("answer.body#/data/issues/0/title can never match"));
  EXPECT_THAT(
      problems("happened: answer.body#/data/issues/0/id", "happened: answer.body#/issues/0/id"),
      HasSubstr("a GraphQL answer has data, errors and extensions"));
  EXPECT_THAT(problems("variables: { id: \"{external_ref}\" }",
                       "variables: { id: \"{external_ref}\" }\n      done_when: "
                       "answer.body#/data/issueDelete/done == true"),
              HasSubstr("tools.issues.create.undo: answer.body#/data/issueDelete/done can never"));
  EXPECT_THAT(problems("identity: body#/input/title", "identity: body#/variables/input/title"),
              HasSubstr("body# of a call by name is its arguments"));
  EXPECT_EQ(problems("undo", "undo").find("can never"), std::string::npos);
}

Explanation Explained(const Policy& policy, const std::string& text, const std::string& body = "") {
  ExplainedCall call;
  EXPECT_TRUE(ParseCall(text, call)) << text;
  call.body = body;
  return Explain(policy, call);
}

TEST(GraphqlWordsTest, ExplainReadsTheDocument) {
  const auto policy = LoadGood(std::string(kBackends).substr(11) + kCreate);
  const auto by_name =
      Explained(*policy, "mutation linear issueCreate", R"({"input":{"title":1}})");
  ASSERT_NE(by_name.tool, nullptr);
  EXPECT_EQ(by_name.tool->name, "issues.create");
  EXPECT_THAT(by_name.fingerprint, HasSubstr("selected"));
  const auto by_body =
      Explained(*policy, "POST linear /graphql",
                R"({"query":"mutation { issueCreate(input: {title: 1}) { issue { id } } }"})");
  EXPECT_EQ(by_body.tool, by_name.tool) << by_body.reason;
  EXPECT_EQ(by_body.key.size(), by_name.key.size());
  EXPECT_EQ(Explained(*policy, "POST linear /graphql", R"({"query":"{ a }"})").effect,
            Effect::kRead);
  EXPECT_EQ(Explained(*policy, "POST linear /graphql", R"({"id":"7"})").effect, Effect::kRead);
  const auto unread = Explained(*policy, "POST linear /graphql",
                                R"({"query":"mutation { issueCreate(input: {}) { success } }"})");
  EXPECT_THAT(unread.reason, HasSubstr("/data/issueCreate/issue/id"));
  const auto unlisted =
      Explained(*policy, "POST linear /graphql", R"({"query":"mutation { b(x: 1) }"})");
  EXPECT_EQ(unlisted.tool, nullptr);
  EXPECT_EQ(unlisted.refused, "");
  EXPECT_EQ(unlisted.effect, Effect::kWrite);
  EXPECT_EQ(Explained(*policy, "GET linear /graphql?query=mutation%7Ba%7D").refused,
            "method-not-allowed");
}

}  // namespace
}  // namespace recourse::graphql_words_test
