// An undo that puts back only part of what a call has set is none.
#include "policy/undo/put_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/filters/saga_shop.h"

namespace recourse::put_back_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHead = R"(
version: 1
backends:
  b: { url: "http://b.test" }
  m: { url: "http://m.test/mcp", protocol: mcp }
  g: { url: "http://g.test/graphql", protocol: graphql }
tools:
  get: { match: tools/call m get, effect: read }
  t:
    effect: write
)";
const std::string kBefore = R"(
    before: { request: "GET /i/{path.id}", keep: [ body#/title, body#/meta ] }
)";
const std::string kPatch = R"(    match: PATCH b /i/{id})" + kBefore +
                           R"(    undo: { request: "PATCH /i/{path.id}",
      json: { title: "{before.body#/title}", meta: "{before.body#/meta}" }, leaves: body#/note }
)";
const std::string kPut = R"(    match: PUT b /i/{id})" + kBefore +
                         R"(    undo: { request: "PUT /i/{path.id}",
      json: { fields: { title: "{before.body#/title}", meta: "{before.body#/meta}" } },
      rest: stays }
)";

// The undo, or why there is none, of a call with that body.
std::string Undo(const std::string& words, const std::string& body, bool is_partial = false) {
  const auto policy = PolicyOf((kHead + words).c_str());
  const Tool& tool = *policy->FindTool("t");
  const Pairs path{{"id", "7"}};
  const Snapshot before{.places = {{"/title", "\"old\""}, {"/meta", R"({"a":1})"}}};
  const auto json = ParseJson(body);
  CallValues values;
  values.path = &path;
  values.body = json ? &*json : nullptr;
  values.body_is_partial = is_partial;
  values.before = &before;
  const auto undo = MakeUndo(tool, values, PlacesToPutBack(tool, values));
  return undo ? "made" : undo.error();
}

struct Row {
  std::string words, body, expected;
};

TEST(PutBackTest, AValueThatIsMissingIsNamed) {
  const std::string words = R"(    match: POST b /i
    external_ref: answer.body#/ID
    undo: { request: "DELETE /i/{external_ref}", repeatable: true }
)";
  EXPECT_EQ(Undo(words, "{}"), "{external_ref}: there is nothing at answer.body#/ID");
  const std::string other = R"(    match: POST b /i
    undo: { request: "DELETE /i/{body#/name}", repeatable: true }
)";
  EXPECT_EQ(Undo(other, "{}"), "{body#/name}: there is no such value");
  EXPECT_EQ(Undo(other, R"({"name":"a"})"), "made");
}

TEST(PutBackTest, APatchIsUndoneWhereItsUndoNamesAllThatItSets) {
  const std::string base = "it would not put back body#/base, which the call sets";
  const Row rows[] = {
      {kPatch, R"({"title":"new"})", "made"},
      {kPatch, R"({"title":"new","meta":{"a":2}})", "made"},
      {kPatch, R"({"title":"new","base":"x"})", base},
      {kPatch, R"({"base":null})", base},
      {kPatch, R"({"title":"new","note":{"x":1}})", "made"},
      // What was not there before is not taken away by what was.
      {kPatch, R"({"meta":{"a":1,"b":2}})", "it would not put back body#/meta/b"},
      {kPatch, R"({"title":"old"})", "made"},
      {kPatch, "{}", "made"},
      {kPatch, R"([{"op":"replace","path":"/title","value":1}])", "made"},
      {kPatch, R"([{"op":"test","path":"/base","value":1},{"op":"add","path":"/title"}])", "made"},
      {kPatch, R"([{"op":"add","path":"/base","value":1}])", base},
      {kPatch, R"([{"op":"move","path":"/title","from":"/base"}])", base},
      {kPatch, R"([{"op":"remove","path":""}])", "nobody can tell"},
      {kPatch, "[1]", "nobody can tell"},
      {kPut, R"({"fields":{"title":"new"}})", "made"},
      {kPut, R"({"fields":{"meta":{"b":2}}})", "made"},
      {kPut, R"({"fields":{"base":1}})", "it would not put back body#/fields/base"},
      {kPut, R"({"update":{"x":1}})", "it would not put back body#/update/x"},
  };
  for (const Row& row : rows) EXPECT_THAT(Undo(row.words, row.body), HasSubstr(row.expected));
  EXPECT_THAT(Undo(kPatch, "", true), HasSubstr("nobody can tell"));
  const std::string long_name(limits::kPlacesBytesMax - 1, 'x');
  EXPECT_THAT(Undo(kPatch, "{\"" + long_name + "\":1}"), HasSubstr("nobody can tell"));
  EXPECT_EQ(Undo(kPatch, ""), "made");
}

TEST(PutBackTest, WhatIsReplacedWholeIsBackWhole) {
  const std::string whole = R"(    match: PATCH|PUT b /i/{id}
    before: { request: "GET /i/{path.id}", keep: body# }
    undo: { request: "PUT /i/{path.id}", json: "{before.body#}" }
)";
  const auto policy = PolicyOf((kHead + whole).c_str());
  const Tool& tool = *policy->FindTool("t");
  const Pairs path{{"id", "7"}};
  const Snapshot before{.places = {{"", R"({"title":"old","meta":[1]})"}}};
  const Json body = *ParseJson(R"({"title":"new","more":{"x":1}})");
  CallValues values;
  values.path = &path;
  values.body = &body;
  values.before = &before;
  EXPECT_EQ(PlacesSet(values), (std::vector<std::string>{"/title", "/more/x"}));
  EXPECT_TRUE(MakeUndo(tool, values, PlacesSet(values)));
  EXPECT_TRUE(MakeUndo(tool, values, {""}));
}

TEST(PutBackTest, ALiteralPatchIsHeldToItToo) {
  const std::string close = R"(    match: PATCH b /i/{id}
    undo: { request: "PATCH /i/{path.id}", json: { state: open } }
)";
  EXPECT_EQ(Undo(close, R"({"state":"closed"})"), "made");
  EXPECT_THAT(Undo(close, R"({"state":"closed","title":"x"})"), HasSubstr("body#/title"));
  // A thing that is made whole is not put back, but taken away.
  const std::string put = R"(    match: PUT b /i/{id}
    undo: { request: "PATCH /i/{path.id}", json: { state: canceled } }
)";
  EXPECT_EQ(Undo(put, R"({"plan":"large"})"), "made");
}

TEST(PutBackTest, FormsAndArgumentsAreHeldToItToo) {
  const std::string form = R"(    match: POST b /i/{id})" + kBefore +
                           R"(    undo: { request: "POST /i/{path.id}",
      form: { title: "{before.body#/title}", meta: "{before.body#/meta/a}" } }
)";
  EXPECT_EQ(Undo(form, R"({"title":"new"})"), "made");
  EXPECT_THAT(Undo(form, R"({"title":"new","color":"red"})"), HasSubstr("body#/color"));
  const std::string mcp = R"(    match: tools/call m edit
    before: { call: get, arguments: { number: "{body#/number}" },
              keep: [ body#/title, body#/meta ] }
    undo: { call: set, arguments: { id: "{body#/number}", title: "{before.body#/title}",
            values: "{before.body#/meta}" } }
)";
  EXPECT_EQ(Undo(mcp, R"({"number":7,"title":"new","meta":3})"), "made");
  EXPECT_THAT(Undo(mcp, R"({"number":7,"color":"red"})"), HasSubstr("body#/color"));
}

TEST(PutBackTest, AMutationIsHeldToItsVariables) {
  const std::string mutation = R"(    match: mutation g issueUpdate
    before: { graphql: "query($id: ID!) { issue(id: $id) { title meta } }",
              variables: { id: "{body#/id}" }, keep: [ body#/title, body#/meta ] }
    undo:
      graphql: "mutation($id: ID!, $in: IssueInput!) {
        issueUpdate(id: $id, input: $in) { success } }"
      variables:
        id: "{body#/id}"
        in: { title: "{before.body#/title}", meta: "{before.body#/meta}" }
)";
  EXPECT_EQ(Undo(mutation, R"({"id":"7","input":{"title":"new"}})"), "made");
  EXPECT_THAT(Undo(mutation, R"({"id":"7","input":{"color":"red"}})"),
              HasSubstr("body#/input/color"));
}

}  // namespace
}  // namespace recourse::put_back_test
