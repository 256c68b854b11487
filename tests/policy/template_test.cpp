#include "policy/template/template.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/limits.h"
#include "tests/policy/policy_builder.h"

namespace recourse::template_test {
namespace {

// A call and its answer with everything that a template can read.
class TemplateTest : public ::testing::Test {
 protected:
  TemplateTest() {
    values_.path = &path_;
    values_.query = &query_;
    values_.headers = &headers_;
    values_.key = "abc123";
    values_.external_ref = "ord_7";
    values_.answer_status = 201;
    values_.answer_headers = &answer_headers_;
    SetBody(R"({"id": "c1", "n": 120, "t": true, "e": "", "x": null, "o": {"a": [1, "b"]},
                "q": "say \"hi\"\\"})");
    SetAnswer(R"({"id": "ord_7", "empty": "", "big": 12345678901234567890.5})");
  }
  void SetBody(std::string_view text) {
    body_ = *ParseJson(text);
    values_.body = &body_;
  }
  void SetAnswer(std::string_view text) {
    answer_ = *ParseJson(text);
    values_.answer_body = &answer_;
  }
  std::string Target(const std::string& line) {
    const auto request = ParseRequestLine(line);
    if (!request) return "unreadable";
    const auto rendered = Render(*request, values_);
    return rendered ? rendered->method + ' ' + rendered->target : "refused";
  }
  // The body of an undo request written as YAML.
  std::string Body(const std::string& yaml) {
    const auto policy = LoadGood(
        "backends: { b: { url: \"http://b\" } }\n"
        "tools: { t: { match: POST b /t, effect: write, identity: body#/id,\n"
        "  undo: { request: POST /u, json: " +
        yaml + " } } }\n");
    if (policy->tools.empty()) return "unreadable";
    const auto rendered = Render(policy->tools[0].undo->request, values_);
    return rendered ? rendered->body : "refused";
  }

  std::vector<std::pair<std::string, std::string>> path_{{"id", "7"}};
  std::vector<std::pair<std::string, std::string>> query_{{"q", "a b"}, {"d", "1"}, {"d", "2"}};
  Headers headers_{{"X-Name", "n"}};
  Headers answer_headers_{{"Location", "/orders/7"}, {"X-Id", "17"}};
  Json body_, answer_;
  CallValues values_;
};

TEST_F(TemplateTest, ASlashInAPathGoesInEscapedWhereTheServerKeepsIt) {
  const auto target = [&](const std::string& id) {
    path_[0].second = id;
    auto request = ParseRequestLine("DELETE /projects/{path.id}/x");
    EXPECT_TRUE(request);
    EXPECT_EQ(Render(*request, values_).has_value(), id.find('/') == std::string::npos) << id;
    request->keeps_escaped_slash = true;
    const auto rendered = Render(*request, values_);
    return rendered ? rendered->target : "refused";
  };
  EXPECT_EQ(target("group"), "/projects/group/x");
  EXPECT_EQ(target("group/sub/name"), "/projects/group%2Fsub%2Fname/x");
  for (const char* id : {"../x", "a/..", "a/../b", "a/./b", "/a", "a/", "a//b", "a/*", "a/all",
                         "a/..;x", "a/b\\c", "a/%2e%2e", "a/b?c", "a/b#c"}) {
    EXPECT_EQ(target(id), "refused") << id;
  }
}

TEST_F(TemplateTest, ValuesFillPathsAndQueries) {
  const std::pair<const char*, const char*> rows[] = {
      {"DELETE /orders/{external_ref}", "DELETE /orders/ord_7"},
      {"GET /orders?client_ref={key}", "GET /orders?client_ref=abc123"},
      {"GET /orders/{path.id}/items", "GET /orders/7/items"},
      {"GET /orders?q={query.q}&n={body#/n}", "GET /orders?q=a%20b&n=120"},
      {"GET /orders/x-{external_ref}.json", "GET /orders/x-ord_7.json"},
      {"GET /o/{answer.header.X-Id}", "GET /o/17"},
      {"GET /o/{answer.body#/id}?s={answer.status}", "GET /o/ord_7?s=201"},
      {"GET /o?t={body#/t}&h={header.x-name}", "GET /o?t=true&h=n"},
      {"GET /o?ref={body#/o/a/1}", "GET /o?ref=b"},
      {"GET /o?quote={body#/q}", "GET /o?quote=say%20%22hi%22%5C"},
      {"POST /orders/", "POST /orders/"},
      {"GET /", "GET /"},
      {"GET /o?fixed=1&flag", "GET /o?fixed=1&flag="},
  };
  for (const auto& [line, expected] : rows) EXPECT_EQ(Target(line), expected) << line;
}

TEST_F(TemplateTest, MissingOrUnfitValuesAreRefused) {
  for (const char* line : {
           "GET /o/{body#/missing}",           // T09
           "GET /o/{body#/e}",                 // T13
           "GET /o/{body#/x}",                 // null
           "GET /o/{body#/o}",                 // T06
           "GET /o?q={body#/o}",               //
           "GET /o?q={body#/e}",               //
           "GET /o/{query.d}",                 // twice: two readings
           "GET /o/{answer.header.Location}",  // has a slash
           "GET /o/{answer.body#/empty}",      //
       }) {
    EXPECT_EQ(Target(line), "refused") << line;
  }
  values_.external_ref.clear();
  EXPECT_EQ(Target("DELETE /orders/{external_ref}"), "refused");
  values_.key.clear();
  EXPECT_EQ(Target("GET /o?k={key}"), "refused");
}

TEST_F(TemplateTest, NoWildcardIsSentInAPathOrQuery) {
  for (const char* value : {"*", "all", "ALL", "ord-*"}) {
    values_.external_ref = value;
    EXPECT_EQ(Target("DELETE /orders/{external_ref}"), "refused") << value;
    EXPECT_EQ(Target("DELETE /orders?id={external_ref}"), "refused") << value;
    EXPECT_EQ(Target("GET /orders?q=ref:{external_ref}"), "refused") << value;
  }
  values_.external_ref = "allure";
  EXPECT_EQ(Target("DELETE /orders?id={external_ref}"), "DELETE /orders?id=allure");
}

TEST_F(TemplateTest, AHostileReferenceNeverChangesThePathItStandsIn) {
  for (const char* ref : {"../admin", "..", ".", "x/y", "x\\y", "x?y=1", "x#y", "x;y", "%2e%2e",
                          "a\nb", "a\tb", "a\x7f", "caf\xc3\xa9", "*", "all", "ALL", "a b"}) {
    values_.external_ref = ref;
    EXPECT_EQ(Target("DELETE /orders/{external_ref}"), "refused") << ref;
  }
  values_.external_ref = std::string("a\0b", 3);
  EXPECT_EQ(Target("DELETE /orders/{external_ref}"), "refused");
  values_.external_ref = std::string(limits::kExternalRefBytesMax, 'a');
  EXPECT_NE(Target("DELETE /orders/{external_ref}"), "refused");
  values_.external_ref += 'a';
  EXPECT_EQ(Target("DELETE /orders/{external_ref}"), "refused");  // T08
  values_.external_ref = ".";
  EXPECT_EQ(Target("DELETE /orders/.{external_ref}"), "refused");
  values_.external_ref = "a=b&c=d+e";
  EXPECT_EQ(Target("GET /o?r={external_ref}"), "GET /o?r=a%3Db%26c%3Dd%2Be");
  values_.external_ref = "a:b@c,d";
  EXPECT_EQ(Target("DELETE /o/{external_ref}"), "DELETE /o/a%3Ab%40c%2Cd");
}

TEST_F(TemplateTest, ValuesAreNotTemplates) {  // T07
  values_.external_ref = "{key}";
  EXPECT_EQ(Target("GET /o?r={external_ref}"), "GET /o?r=%7Bkey%7D");
  values_.external_ref = "{{env.SECRET}}${HOME}";
  EXPECT_EQ(Body("{ r: \"{external_ref}\" }"), R"({"r":"{{env.SECRET}}${HOME}"})");
}

TEST_F(TemplateTest, JsonBodiesAreBuiltAsTrees) {
  const std::pair<const char*, const char*> rows[] = {
      {"{ charge: \"{external_ref}\" }", R"({"charge":"ord_7"})"},
      {"{ n: \"{body#/n}\", t: \"{body#/t}\" }", R"({"n":120,"t":true})"},
      {"{ text: \"ref {external_ref} of {body#/n}\" }", R"({"text":"ref ord_7 of 120"})"},
      {"{ q: \"{body#/q}\" }", R"({"q":"say \"hi\"\\"})"},  // T05
      {"{ a: 1, b: 1.50, c: true, d: null, e: plain, f: \"1\", g: [ 1, x ] }",
       R"({"a":1,"b":1.5,"c":true,"d":null,"e":"plain","f":"1","g":[1,"x"]})"},
      {"{ o: \"{body#/o}\" }", R"({"o":{"a":[1,"b"]}})"},
      {"{ s: \"{answer.status}\" }", R"({"s":201})"},
      {"{ big: \"{answer.body#/big}\" }", R"({"big":12345678901234567890.5})"},
      {"{ e: \"{body#/e}\" }", R"({"e":""})"},
      {"[ \"{key}\" ]", R"(["abc123"])"},
      {"{ e: \"\" }", R"({"e":""})"},
      {"{ m: \"{body#/missing}\" }", "refused"},
      {"{ m: \"{body#/x}\" }", "refused"},
      {"{ m: \"{answer.body#/empty}\" }", "refused"},
      {"{ m: \"a {body#/o}\" }", "refused"},
  };
  for (const auto& [yaml, expected] : rows) EXPECT_EQ(Body(yaml), expected) << yaml;
  SetBody("{\"id\": \"" + std::string(limits::kRenderedRequestBytesMax, 'x') + "\"}");
  EXPECT_EQ(Body("{ m: \"{body#/id}\" }"), "refused");
}

TEST_F(TemplateTest, HeadersTakeCheckedValues) {
  const auto policy = LoadGood(R"(
backends: { b: { url: "http://b" } }
tools:
  t:
    match: POST b /t
    effect: write
    identity: body#/id
    undo:
      request: DELETE /t/{external_ref}
      headers: { X-Ref: "r-{external_ref}", Authorization: "{header.Authorization}" }
)");
  const RequestTemplate& request = policy->tools.at(0).undo->request;
  EXPECT_FALSE(Render(request, values_));  // the agent sent no Authorization
  headers_.emplace_back("authorization", "Bearer x");
  auto rendered = Render(request, values_);
  ASSERT_TRUE(rendered);
  EXPECT_EQ(rendered->headers, (Headers{{"X-Ref", "r-ord_7"}, {"Authorization", "Bearer x"}}));
  EXPECT_TRUE(rendered->body.empty());
  headers_.back().second = "Bearer x\r\nX-Evil: 1";  // T03
  EXPECT_FALSE(Render(request, values_));
}

TEST_F(TemplateTest, JsonBodiesSayWhatTheyAre) {
  auto request = *ParseRequestLine("POST /u");
  RequestTemplate::Node body;
  body.kind = Json::Kind::kObject;
  request.json = body;
  EXPECT_EQ(Render(request, values_)->headers, (Headers{{"Content-Type", "application/json"}}));
}

TEST_F(TemplateTest, RequestLinesWithValuesInFixedPlacesAreRefused) {
  for (const char* bad : {
           "",
           "GET",
           "/orders",
           "get /orders",
           "GET orders",
           "GET http://other/orders",       // T04
           "GET {answer.header.Location}",  // T10
           "{body#/m} /orders",             //
           "GET //{body#/host}/x",          //
           "GET /orders?{query.q}=1",       //
           "GET /orders?=1",                //
           "GET /orders?a=1?b=2",           //
           "GET /orders#x",                 //
           "GET /a/../b",                   //
           "GET /a//b",                     //
           "GET /a/%2e%2e",                 //
           "GET /a%2Fb",                    //
           "GET /a b",                      //
           "GET /o/{env.SECRET}",           // T17
           "GET /o/{upper(key)}",           //
           "GET /o/{{key}}",                //
           "GET /o/{key",                   //
           "GET /o/key}",                   //
           "GET /o/{}",                     //
           "GET /o?a={key}{",               //
           "CONNECT /o",                    //
           "TRACE /o",                      //
           "GET  /o",                       //
       }) {
    EXPECT_FALSE(ParseRequestLine(bad)) << bad;
  }
}

}  // namespace
}  // namespace recourse::template_test
