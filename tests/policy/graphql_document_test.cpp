#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "policy/graphql/request.h"

namespace recourse {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string RefusedFor(std::string_view text) {
  const auto document = ParseGraphql(text);
  return document ? "" : document.error().Text();
}

TEST(GraphqlDocument, IsRefusedWithThePlace) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "expected query, mutation, subscription, fragment or { (line 1, column 1)"},
      {"{", "expected a name (line 1, column 2)"},
      {"{ }", "expected a name"},
      {"{ a( ) }", "expected a name"},
      {"{ a(b 1) }", "expected :"},
      {"{ a }\n{ b }", "stands alone in its document (line 2, column 1)"},
      {"query A { a } { b }", "stands alone"},
      {"query A { a } query A { b }", "two operations are called A"},
      {"fragment F on T { a }", "at least one operation"},
      {"fragment on on T { a } { a }", "is not called on"},
      {"{ a } fragment F on T { a } fragment F on T { b }", "two fragments are called F"},
      {"query ($a: Int, $a: Int) { a }", "$a is there twice"},
      {"query ($a: Int = $b) { a }", "no variable may stand here"},
      {"{ a(b: 1, b: 2) }", "argument b is there twice"},
      {"{ a(b: {c: 1, c: 2}) }", "field c is there twice"},
      {"{ a(b: 01) }", "no number"},
      {"{ a(b: 1.) }", "no number"},
      {"{ a(b: 1x) }", "no number"},
      {"{ a(b: 1.5.1) }", "no number"},
      {"{ a(b: \"x\n\") }", "does not end on its line"},
      {"{ a(b: \"\\x\") }", "escape that is none"},
      {"{ a(b: \"\\uD800\") }", "escape that is none"},
      {"{ a(b: \"\\u{110000}\") }", "escape that is none"},
      {"{ a(b: \"\"\"x) }", "does not end"},
      {"{ a ? }", "no token of GraphQL begins here (line 1, column 5)"},
      {"{ a }\r\n # \x01", "control character stands here (line 2, column 4)"},
      {"{ \xff }", "UTF-8"},
      {"type Query { a: Int }", "expected query"},
      {"schema { query: Q }", "expected query"},
  };
  for (const auto& [text, why] : cases) EXPECT_THAT(RefusedFor(text), HasSubstr(why)) << text;
}

TEST(GraphqlDocument, HasBounds) {
  std::string deep, close;
  for (int i = 0; i < 80; ++i) deep += "{a", close += "}";
  EXPECT_THAT(RefusedFor(deep + close), HasSubstr("64 levels"));
  EXPECT_THAT(RefusedFor("{a(b:" + std::string(80, '[') + std::string(80, ']') + ")}"),
              HasSubstr("64 levels"));
  std::string wide = "{";
  for (int i = 0; i < 20'000; ++i) wide += " a";
  EXPECT_THAT(RefusedFor(wide + "}"), HasSubstr("16384 tokens"));
  std::string many = "{a(";
  for (int i = 0; i < 600; ++i) many += "x" + std::to_string(i) + ":1 ";
  EXPECT_THAT(RefusedFor(many + ")}"), HasSubstr("at most 512"));
}

GraphqlCall Resolved(std::string_view text, std::string_view variables = "{}",
                     std::string_view name = "") {
  const auto document = ParseGraphql(text);
  EXPECT_TRUE(document) << document.error().Text();
  const auto operation = ChooseOperation(*document, name);
  EXPECT_TRUE(operation) << operation.error();
  auto call = ResolveOperation(*document, **operation, *ParseJson(variables));
  EXPECT_TRUE(call) << call.error();
  return std::move(*call);
}

std::string WhyNotResolved(std::string_view text) {
  const auto document = ParseGraphql(text);
  EXPECT_TRUE(document) << document.error().Text();
  const auto call = ResolveOperation(*document, document->operations.front(), Json());
  return call ? "" : call.error();
}

TEST(GraphqlOperation, HasTheSameArgumentsHoweverTheyAreWritten) {
  const std::string bare = CanonicalJson(
      Resolved(
          R"(mutation { issueCreate(input: {title: "a", n: 1.0, on: true, kind: BUG}) { id } })")
          .fields.at(0)
          .arguments);
  EXPECT_EQ(bare, R"({"input":{"kind":"BUG","n":1e0,"on":true,"title":"a"}})");
  const GraphqlCall by_variable =
      Resolved("mutation M($in: I!) { x: issueCreate(input: $in) { ...F } } fragment F on P { id }",
               R"({"in":{"title":"a","n":1,"on":true,"kind":"BUG"}})");
  EXPECT_EQ(CanonicalJson(by_variable.fields.at(0).arguments), bare);
  EXPECT_EQ(by_variable.fields.at(0).name, "issueCreate");
  EXPECT_EQ(by_variable.fields.at(0).shape.key, "x");
  const GraphqlCall by_parts = Resolved(
      R"(mutation($t: String!, $n: Int = 1, $none: [X]) {
           ... on Mutation {
             issueCreate(input: {title: $t, n: $n, on: true, kind: BUG, x: $none}) } })",
      R"({"t":"a"})");
  EXPECT_EQ(CanonicalJson(by_parts.fields.at(0).arguments), bare);
  EXPECT_THAT(by_parts.fields.at(0).selection, IsEmpty());
}

TEST(GraphqlOperation, KnowsBlockTextsAndEscapes) {
  const Json arguments = Resolved(
                             "mutation { a(b: \"\"\"\n    one\n      two\\\"\"\"\n  \"\"\", c: "
                             "\"\\u00e9\\uD83D\\uDE00\\u{1F600}\\t\") }")
                             .fields.at(0)
                             .arguments;
  EXPECT_EQ(arguments.Find("b")->text, "one\n  two\"\"\"");
  EXPECT_EQ(arguments.Find("c")->text, "\xC3\xA9\xF0\x9F\x98\x80\xF0\x9F\x98\x80\t");
}

TEST(GraphqlOperation, IsNotJudgedWhereItMayBeAnother) {
  EXPECT_THAT(WhyNotResolved("mutation { a @skip(if: true) }"), HasSubstr("leave out"));
  EXPECT_THAT(WhyNotResolved("mutation { ... @include(if: $x) { a } }"), HasSubstr("leave out"));
  EXPECT_THAT(WhyNotResolved("mutation { a(b: $x) }"), HasSubstr("$x is not declared"));
  EXPECT_THAT(WhyNotResolved("mutation { ...F }"), HasSubstr("no fragment is called F"));
  EXPECT_THAT(WhyNotResolved("mutation { ...F } fragment F on M { ...F }"),
              HasSubstr("uses itself"));
  EXPECT_THAT(WhyNotResolved("mutation { a { id } a { name } }"), HasSubstr("called a"));
  EXPECT_THAT(WhyNotResolved("mutation { a { id ... @defer { b } } }"), HasSubstr("@defer"));
  std::string bomb = "mutation { a { ...F0 } }";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "...F" + std::to_string(i + 1);
    bomb += " fragment F" + std::to_string(i) + " on T { x" + next + next + " }";
  }
  bomb += " fragment F40 on T { x }";
  EXPECT_THAT(WhyNotResolved(bomb), HasSubstr("16384"));
}

TEST(GraphqlOperation, SelectsWhatItsFragmentsSelect) {
  const GraphqlCall call = Resolved(
      "mutation { a { success issue { ...F } n: name list { id } maybe @include(if: true) } }"
      "fragment F on Issue { id }");
  const GraphqlShape& shape = call.fields.at(0).shape;
  EXPECT_TRUE(Selects(shape, "/issue/id"));
  EXPECT_TRUE(Selects(shape, "/list/0/id"));
  EXPECT_TRUE(Selects(shape, "/n"));
  EXPECT_FALSE(Selects(shape, "/name"));
  EXPECT_FALSE(Selects(shape, "/maybe"));
  EXPECT_FALSE(Selects(shape, "/issue/title"));
}

std::string PostRefusal(std::string_view body, std::string_view query = "",
                        const Headers& headers = {{"Content-Type", "application/json"}}) {
  const auto calls = ReadGraphqlPost(headers, query, body, {});
  return calls ? "" : calls.error().detail;
}

TEST(GraphqlRequest, IsRefusedWhereServersDiffer) {
  EXPECT_THAT(PostRefusal(R"({"query":"{a}","Query":"mutation{b}"})"), HasSubstr("'Query'"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a}","operationname":"x"})"), HasSubstr("operationName"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a}","id":"7"})"), HasSubstr("send one of them"));
  EXPECT_THAT(PostRefusal(R"({"id":"7"})"), HasSubstr("`persisted`"));
  EXPECT_THAT(PostRefusal(R"({"query":"query A{a} mutation B{b}"})"), HasSubstr("several"));
  EXPECT_THAT(PostRefusal(R"({"query":"query A{a}","operationName":"B"})"), HasSubstr("none of"));
  EXPECT_THAT(PostRefusal(R"([{"query":"{a}"},{"query":"mutation{b}"}])"), HasSubstr("batch"));
  EXPECT_THAT(PostRefusal(R"([])"), HasSubstr("1 to 64"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a}","variables":[]})"), HasSubstr("variables"));
  EXPECT_THAT(PostRefusal(R"({"query":7})"), HasSubstr("query"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a"})"), HasSubstr("line 1, column 3"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a}"})", "?query=mutation{b}"), HasSubstr("target"));
  EXPECT_THAT(
      PostRefusal("query=%7Ba%7D", "", {{"Content-Type", "application/x-www-form-urlencoded"}}),
      HasSubstr("application/json"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a}"})", "", {}), HasSubstr("application/json"));
  EXPECT_THAT(PostRefusal(R"({"query":"{a}","extensions":{"persistedQuery":{"sha256Hash":"00"}}})"),
              HasSubstr("not the hash"));
  EXPECT_EQ(PostRefusal(R"({"query":"{a}","variables":null,"operationName":null,"x":1})"), "");
  EXPECT_EQ(PostRefusal(R"([{"query":"{a}"},{"query":"{b}"}])"), "");
  EXPECT_EQ(PostRefusal("mutation { a }", "", {{"Content-Type", "application/graphql"}}), "");
}

TEST(GraphqlRequest, IsInNoCharsetInWhichPlainLettersAreQuotes) {
  const std::string json = R"({"query":"{a} # +ACI-,+ACI-query+ACI-:+ACI-mutation+AHs-b+AH0-"})";
  const std::string bare = "# +AAo-mutation { b(x: +ACIAIgAi-\n{a}\n# +ACIAIgAi-) }";
  for (const char* const said :
       {"charset=utf-7; x=utf-8", "charset=utf-7;utf8", "x=utf-8; charset=utf-7", "charset = utf-7",
        "charset*=utf-8''utf-7", "charset*0=utf; charset*1=-7", "charset=\"utf-7\"; a=\"utf-8\"",
        "charset=utf-8; charset=utf-7", "charset=utf-80"}) {
    for (const auto& [media, body] :
         {std::pair("application/json; ", json), std::pair("application/graphql; ", bare)}) {
      EXPECT_THAT(PostRefusal(body, "", {{"Content-Type", std::string(media) + said}}),
                  HasSubstr("UTF-8"))
          << media << said;
    }
  }
  for (const char* const said : {"charset=utf-8", "Charset=\"UTF-8\"; a=b", "charset=utf8"}) {
    EXPECT_EQ(PostRefusal(json, "", {{"Content-Type", std::string("application/json; ") + said}}),
              "");
  }
}

TEST(GraphqlRequest, HasNoParametersBehindSemicolons) {
  const std::string body = R"({"query":"mutation($a: Int) { pay(amount: $a) }"})";
  for (const char* const query : {"?x=1;query=%7Bb%7D", "?x;variables=%7B%22a%22%3A9%7D",
                                  "?x=1;Variables[a]=9", "?;operationName=B"}) {
    EXPECT_THAT(PostRefusal(body, query), HasSubstr("';'")) << query;
  }
  EXPECT_EQ(PostRefusal(body, "?a=b;c=d"), "");
  EXPECT_FALSE(ReadGraphqlGet("?query=%7Ba%7D%23;query=mutation%7Bb%7D", {}));
  EXPECT_FALSE(ReadGraphqlGet("?query=%7Ba%7D%23;b", {}));
  EXPECT_TRUE(ReadGraphqlGet("?query=%7Ba%7D%23%3Bb&x=1;y=2", {}));
}

TEST(GraphqlRequest, ByGetOnlyAsks) {
  EXPECT_TRUE(ReadGraphqlGet("?query=%7Ba%7D&variables=%7B%7D", {}));
  EXPECT_TRUE(ReadGraphqlGet("", {})->empty());
  EXPECT_TRUE(ReadGraphqlGet("?query=subscription%7Ba%7D", {}));
  EXPECT_EQ(ReadGraphqlGet("?query=mutation%7Ba%7D", {}).error().code,
            ErrorCode::kMethodNotAllowed);
  EXPECT_FALSE(
      ReadGraphqlGet("?query=subscription+A%7Ba%7D+mutation+B%7Bb%7D&operationName=A", {}));
  EXPECT_FALSE(ReadGraphqlGet("?query=%7Ba%7D&query=mutation%7Ba%7D", {}));
  EXPECT_FALSE(ReadGraphqlGet("?query=%7Ba%7D&Query=mutation%7Ba%7D", {}));
}

TEST(GraphqlRequest, TakesStoredDocumentsOfThePolicy) {
  const PersistedDocuments persisted{{"7", "mutation { b(x: 1) }"}};
  const auto calls = ReadGraphqlPost({{"Content-Type", "application/json"}}, "",
                                     R"({"documentId":"7"})", persisted);
  ASSERT_TRUE(calls) << calls.error().detail;
  EXPECT_EQ(calls->front().fields.at(0).name, "b");
}

}  // namespace
}  // namespace recourse
