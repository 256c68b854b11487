// Undo and settle requests out of untrusted values, row by row (corpus 4-T). T11, an address
// that changes, is a matter of the connection; T16, a policy that changes, of the stored request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/template/template.h"
#include "proxy/base/limits.h"
#include "tests/policy/policy_builder.h"

namespace recourse::undo_template_test {
namespace {

using ::testing::HasSubstr;

// The request of an undo with these words, rendered for an answer, or why it is not.
std::string Rendered(const std::string& undo, const std::string& answer,
                     const std::string& location = "/t/1") {
  const auto loaded =
      LoadPolicyText("p.yaml",
                     "version: 1\nbackends: { b: { url: \"http://b\" } }\n"
                     "tools: { t: { match: POST b /t, effect: write, identity: body#/n, undo: { " +
                         undo + " } } }\n");
  if (!loaded.ok()) return "load: " + ProblemsOf(loaded);
  const Json body = *ParseJson(R"({"n": 5, "amount": 120})");
  const auto answered = ParseJson(answer);
  const Headers headers{{"Location", location}};
  CallValues values;
  values.body = &body;
  values.key = "abc";
  values.answer_status = 201;
  values.answer_headers = &headers;
  values.answer_body = answered ? &*answered : nullptr;
  if (answered) {
    const Json* id = AtPointer(*answered, "/id");
    if (id != nullptr && id->is_scalar()) values.external_ref = ScalarText(*id);
  }
  const auto request = Render(loaded.policy->tools[0].undo->request, values);
  if (!request) return "refused: " + std::string(request.error().detail());
  std::string out = request->method + ' ' + request->target;
  for (const auto& [name, value] : request->headers) out += " | " + name + ": " + value;
  return request->body.empty() ? out : out + " | " + request->body;
}

std::string Answer(const std::string& id) {
  std::string text = R"({"id":)";
  AppendJsonString(text, id);
  return text + "}";
}

struct Row {
  const char* name;
  std::string undo;
  std::string answer;
  std::string expected;  // a part of what Rendered gives
};
void ExpectRows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    EXPECT_THAT(Rendered(row.undo, row.answer), HasSubstr(row.expected)) << row.name;
  }
}

TEST(UndoTemplateTest, AHostileReferenceStaysOneSegmentOrIsRefused) {
  const std::string undo = R"(request: "DELETE /t/{external_ref}")";
  const std::string refused = "refused: a value cannot stand in a path";
  ExpectRows({
      {"good", undo, Answer("ord_7"), "DELETE /t/ord_7"},
      {"good, encoded", undo, Answer("a:b@c"), "DELETE /t/a%3Ab%40c"},
      {"T01", undo, Answer("../admin"), refused},
      {"T01 alone", undo, Answer(".."), "refused"},
      {"T02 query", undo, Answer("x?y=1"), refused},
      {"T02 fragment", undo, Answer("x#y"), refused},
      {"T02 parameter", undo, Answer("x;y"), refused},
      {"T02 escapes", undo, Answer("%2e%2e"), refused},
      {"T08 size", undo, Answer(std::string(1 << 20, 'x')), "refused: a value is too long"},
      {"T09 missing", undo, R"({"other":1})", "refused: a value is missing"},
      {"T12 unicode", undo, R"({"id":"caf\u00e9"})", refused},
      {"T12 NUL", undo, R"({"id":"a\u0000b"})", "refused: a value has control characters"},
      {"T13 empty", undo, Answer(""), "refused: a value is missing"},
      {"T13 empty, by pointer", R"(request: "DELETE /t/{answer.body#/id}")", Answer(""),
       "refused: a value is empty"},
      {"T14 star", undo, Answer("*"), refused},
      {"T14 all", undo, Answer("all"), refused},
      {"T14 number is good", undo, R"({"id":17})", "DELETE /t/17"},
  });
}

TEST(UndoTemplateTest, NoWildcardIsAValueOfABody) {
  const std::string json = R"(request: "POST /u", json: { id: "{answer.body#/id}" })";
  const std::string form = R"(request: "POST /u", form: { id: "{answer.body#/id}" })";
  const std::string refused = "refused: a value cannot stand in a body";
  for (const std::string& undo : {json, form}) {
    ExpectRows({{"star", undo, Answer("*"), refused},
                {"all", undo, Answer("ALL"), refused},
                {"glob", undo, Answer("ord-*"), refused},
                {"good", undo, Answer("allure"), "allure"}});
  }
  ExpectRows({
      {"of many", json, R"({"id":["7","*"]})", refused},
      {"list", json, R"({"id":["7"]})", R"({"id":["7"]})"},
      {"in words", R"(request: "POST /u", json: { why: "undo of {answer.body#/id}" })",
       Answer("all *"), R"({"why":"undo of all *"})"},
  });
}

TEST(UndoTemplateTest, AHostileValueStaysOneQueryValueFieldOrNode) {
  ExpectRows({
      {"T03", R"(request: "POST /u", headers: { X-Ref: "{answer.body#/id}" })",
       Answer("a\r\nX-Evil: 1"), "refused: a value has control characters"},
      {"T03 good", R"(request: "POST /u", headers: { X-Ref: "r-{answer.body#/id}" })", Answer("a"),
       "POST /u | X-Ref: r-a"},
      {"query", R"(request: "POST /u?ref={answer.body#/id}&all=no")", Answer("1&all=yes"),
       "POST /u?ref=1%26all%3Dyes&all=no"},
      {"form", R"(request: "POST /u", form: { ref: "{answer.body#/id}", all: "no" })",
       Answer("1&all=yes"),
       "POST /u | Content-Type: application/x-www-form-urlencoded | ref=1%26all%3Dyes&all=no"},
      {"form, nested names",
       R"(request: "POST /u", form: { "metadata[ref]": "{answer.body#/id}" })", Answer("a b"),
       "| metadata%5Bref%5D=a%20b"},
      {"form, missing", R"(request: "POST /u", form: { ref: "{answer.body#/no}" })", Answer("1"),
       "refused: a value is missing"},
      {"T05", R"(request: "POST /u", json: { ref: "{answer.body#/id}" })",
       Answer(R"(","admin":true,"x":"\)"), R"({"ref":"\",\"admin\":true,\"x\":\"\\"})"},
      {"T07 our own", R"(request: "POST /u", json: { ref: "{answer.body#/id}" })", Answer("{key}"),
       R"({"ref":"{key}"})"},
      {"T07 others", R"(request: "POST /u", json: { ref: "x {answer.body#/id}" })",
       Answer("{{env.SECRET}}${HOME}"), R"({"ref":"x {{env.SECRET}}${HOME}"})"},
      {"T08 total",
       R"(request: "POST /u", json: { a: "{answer.body#/id}", b: "{answer.body#/id}" })",
       Answer(std::string(limits::kRenderedRequestBytesMax, 'x')),
       "refused: the rendered request is too large"},
  });
}

TEST(UndoTemplateTest, AValueHasTheTypeThatItsPlaceholderNames) {  // T06
  const std::string undo =
      R"(request: "POST /u", json: { amount: "{answer.body#/amount as number}" })";
  const std::string refused = "refused: a value has another type than `as` says";
  ExpectRows({
      {"number", undo, R"({"amount":12.50})", R"({"amount":12.5})"},
      {"string", undo, R"({"amount":"12.50"})", refused},
      {"array", undo, R"({"amount":[1]})", refused},
      {"object", undo, R"({"amount":{"$gt":0}})", refused},
      {"null", undo, R"({"amount":null})", "refused: a value is missing"},
      {"bool", R"(request: "POST /u", json: { a: "{answer.body#/a as bool}" })", R"({"a":true})",
       R"({"a":true})"},
      {"no bool", R"(request: "POST /u", json: { a: "{answer.body#/a as bool}" })", R"({"a":1})",
       refused},
      {"text in a path", R"(request: "DELETE /t/{answer.body#/id as text}")", R"({"id":7})",
       refused},
      {"object without a type", R"(request: "POST /u", json: { a: "{answer.body#/a}" })",
       R"({"a":{"b":[1.50,null,""]}})", R"({"a":{"b":[1.5,null,""]}})"},
      {"array without a type", R"(request: "POST /u", json: "{answer.body#/a}")",
       R"({"a":[{"b":1},[]]})", R"([{"b":1},[]])"},
      {"object in a text", R"(request: "POST /u", json: { a: "x {answer.body#/a}" })",
       R"({"a":{"b":1}})", "refused: a value is an array or object where text is needed"},
      {"object of the call is the agent's own",
       R"(request: "POST /u", json: { a: "{answer.status as number}" })", "{}", R"({"a":201})"},
      {"no such type", R"(request: "DELETE /t/{answer.body#/id as integer}")", "{}",
       "load: p.yaml:3:"},
  });
}

TEST(UndoTemplateTest, TheFixedPartsOfARequestTakeNoValue) {  // T04, T10, T17
  for (const char* undo : {
           R"(request: "{answer.body#/m} /t")",
           R"(request: "DELETE {answer.header.Location}")",
           R"(request: "DELETE http://{answer.body#/host}/t")",
           R"(request: "DELETE https://other/t")",
           R"(request: "DELETE //{answer.body#/host}/t")",
           R"(request: "POST /u", headers: { "{answer.body#/h}": x })",
           R"(request: "POST /u?{answer.body#/q}=1")",
           R"(request: "POST /u", json: { "{answer.body#/n}": x })",
           R"(request: "POST /u", form: { "{answer.body#/n}": x })",
           R"(request: "DELETE /t/{upper(external_ref)}")",
           R"(request: "DELETE /t/{external_ref|lower}")",
           R"(request: "DELETE /t/{env.HOME}")",
           R"(request: "DELETE /t/{answer.body#/id")",
       }) {
    EXPECT_THAT(Rendered(undo, Answer("1")), HasSubstr("load: p.yaml:3:")) << undo;
  }
  // A Location is only ever a segment's worth: what leads elsewhere cannot stand in it.
  const std::string undo = R"(request: "DELETE /t/{answer.header.Location}")";
  EXPECT_THAT(Rendered(undo, "{}", "http://evil/t/1"), HasSubstr("refused"));
  EXPECT_THAT(Rendered(undo, "{}", "/t/1"), HasSubstr("refused"));
  EXPECT_EQ(Rendered(undo, "{}", "1"), "DELETE /t/1");
}

constexpr const char* kTools = R"(version: 1
backends: { b: { url: "http://b" } }
tools:
  with.undo: { match: "DELETE b /u/{id}", effect: write, undo: { request: "PUT /u/{path.id}" } }
  asked:     { match: "DELETE b /a/{id}", effect: write, undo: none, approval: { by: x } }
  plain:     { match: "DELETE b /p/{id}", effect: write, undo: none, reason: it is an undo }
)";

std::string ProblemsWith(const std::string& words) {
  return ProblemsOf(LoadPolicyText(
      "p.yaml", std::string(kTools) + "  t: { match: POST b /t, effect: write, " + words + " }\n"));
}

TEST(UndoTemplateTest, AnUndoNeedsNoHuman) {  // T18, T19
  EXPECT_THAT(ProblemsWith(R"(undo: { request: "DELETE /a/{external_ref}" })"),
              HasSubstr("error: tools.t.undo: this request is tool asked, which needs approval"));
  EXPECT_THAT(ProblemsWith(R"(undo: { request: "DELETE /u/{external_ref}" })"),
              ::testing::Not(HasSubstr("error")));
  EXPECT_THAT(ProblemsWith(R"(undo: { request: "POST /t" }, approval: { by: x })"),
              HasSubstr("error: tools.t.undo: this request is tool t, which needs approval"));
  EXPECT_THAT(ProblemsWith(R"(undo: { request: "DELETE /p/{external_ref}" })"),
              ::testing::Not(HasSubstr("error")));
}

TEST(UndoTemplateTest, AnAmountThatTheCallAskedForAndTheAnswerNamesIsWarnedAbout) {  // T15
  const std::string warning = "may be another value than body#/amount";
  EXPECT_THAT(ProblemsWith(R"(identity: body#/amount, undo: { request: "POST /r", json: { amount: )"
                           R"("{answer.body#/amount}" } })"),
              HasSubstr(warning));
  EXPECT_THAT(ProblemsWith(R"(identity: body#/n, undo: { request: "POST /r", json: { amount: )"
                           R"("{answer.body#/amount}" } })"),
              ::testing::Not(HasSubstr(warning)));
}

TEST(UndoTemplateTest, APathThatNothingElseHasIsWarnedAboutWhereNotFoundMeansUndone) {
  const std::string warning = "is it spelled so?";
  EXPECT_THAT(ProblemsWith(R"(undo: { request: "DELETE /tt/{external_ref}", done: [ 2xx, 404 ] })"),
              HasSubstr("has 'tt', and with 404 in `done`"));
  for (const char* good :
       {R"(undo: { request: "DELETE /t/{external_ref}", done: [ 2xx, 404 ] })",
        R"(undo: { request: "DELETE /u/{external_ref}", done: [ 2xx, 404 ] })",
        R"(undo: { request: "DELETE /tt/{external_ref}" })",
        R"(undo: { request: "DELETE /tt/{external_ref}", done: [ 404 ] }, settle: )"
        R"({ request: "GET /tt?k={key}", happened: answer.body#/id })"}) {
    EXPECT_THAT(ProblemsWith(good), ::testing::Not(HasSubstr(warning))) << good;
  }
}

TEST(UndoTemplateTest, ASettleRequestChangesNothing) {  // T20
  for (const char* method : {"POST", "DELETE", "PUT", "OPTIONS"}) {
    EXPECT_THAT(ProblemsWith(std::string("undo: none, reason: r, settle: { request: \"") + method +
                             " /t\", happened: answer.body#/id }"),
                HasSubstr("is GET or HEAD: it asks"))
        << method;
  }
  EXPECT_THAT(
      ProblemsWith(
          "undo: none, reason: r, settle: { request: \"GET /t\", happened: answer.body#/id }"),
      ::testing::Not(HasSubstr("error")));
}

}  // namespace
}  // namespace recourse::undo_template_test
