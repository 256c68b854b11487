// Keys and marks where the policy has Recourse write them.
#include "proxy/drill/placed_text.h"

#include <gtest/gtest.h>

namespace recourse::placed_text_test {
namespace {

const Headers kJson{{"Content-Type", "application/json"}};
const Headers kForm{{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};

RequestPlace At(std::string_view text) {
  auto place = ParseRequestPlace(text);
  EXPECT_TRUE(place) << text;
  return place.value_or(RequestPlace());
}

TEST(PlacedText, IsReadWhereverAPolicyMayPutIt) {
  const HttpRequest json{"POST",
                         "/o?a=1&ref=q-1",
                         {{"Content-Type", "application/json"}, {"X-Key", "h-1"}},
                         R"({"meta":{"key":"b-1","count":7}})"};
  EXPECT_EQ(TextAt(At("header:x-key"), json), "h-1");
  EXPECT_EQ(TextAt(At("query.ref"), json), "q-1");
  EXPECT_EQ(TextAt(At("body#/meta/key"), json), "b-1");
  const HttpRequest form{"POST", "/o", kForm, "a=1&key=f-1"};
  EXPECT_EQ(TextAt(At("body#/key"), form), "f-1");
  const HttpRequest graphql{
      "POST", "/graphql", kJson,
      R"js({"query":"mutation($n: N) { make(n: $n) @idempotent(key: \"d-1\") { id } }",)js"
      R"js("variables":{"n":{"id":"v-1"}}})js"};
  EXPECT_EQ(TextAt(At("variables#/n/id"), graphql), "v-1");
  EXPECT_EQ(TextAt(At("document@idempotent(key)"), graphql), "d-1");
}

TEST(PlacedText, IsEmptyWhereNoTextStands) {
  const HttpRequest json{"POST", "/o", kJson, R"({"meta":{"count":7}})"};
  for (const char* const place :
       {"none", "header:X-Key", "query.ref", "body#/meta/key", "body#/meta/count", "body#/meta"}) {
    EXPECT_EQ(TextAt(At(place), json), "") << place;
  }
  EXPECT_EQ(TextAt(At("query.ref"), {"POST", "/o?xref=1&ref", {}, ""}), "");
  EXPECT_EQ(TextAt(At("body#/key"), {"POST", "/o", kForm, "akey=1"}), "");
  EXPECT_EQ(TextAt(At("body#/key"), {"POST", "/o", kJson, "key=1"}), "") << "no JSON";
}

// What a script wants of a request, with the key that came with the request.
TEST(PlacedText, IsTakenOverWhereTheOtherHasNone) {
  const HttpRequest got{"POST", "/o?ref=q-1", kJson, R"({"key":"b-1","cart":"c"})"};
  const HttpRequest bare{"POST", "/o", kJson, R"({"cart":"c"})"};
  EXPECT_EQ(WithTextOf(got, At("body#/key"), bare).body, got.body);
  EXPECT_EQ(WithTextOf(got, At("query.ref"), bare).target, "/o?ref=q-1");
  EXPECT_EQ(WithTextOf({"POST", "/o", kForm, "cart=c&key=f-1"}, At("body#/key"),
                       {"POST", "/o", {}, "cart=c"})
                .body,
            "cart=c&key=f-1");
  const HttpRequest own{"POST", "/o", kJson, R"({"cart":"c","key":"mine"})"};
  EXPECT_EQ(WithTextOf(got, At("body#/key"), own).body, own.body) << "the agent wrote one itself";
  EXPECT_EQ(WithTextOf(bare, At("body#/key"), bare).body, bare.body) << "there is nothing to take";
  EXPECT_EQ(WithTextOf(got, At("header:X-Key"), bare).headers, bare.headers)
      << "fields are not compared";
}

}  // namespace
}  // namespace recourse::placed_text_test
