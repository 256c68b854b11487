#include "proxy/base/json/json_span.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/json/json.h"

namespace recourse::json_span_test {
namespace {

std::string At(std::string_view text, std::string_view pointer) {
  EXPECT_TRUE(ParseJson(text)) << text;
  const auto span = FindJsonSpan(text, pointer);
  return span ? std::string(text.substr(span->at, span->size)) : "nothing";
}

TEST(JsonSpanTest, TheTextOfAValueIsFoundAsItIsWritten) {
  constexpr std::string_view kText =
      " { \"a\" : { \"b\" : [ 1.50 , {\"c\":\"x,}]\\\"\"} , [ ] ] } , \"n\":null,\"a/b\":1,"
      "\"m~n\":2,\"\\u0065\":3,\"\":4,\"0\":5}";
  EXPECT_EQ(At(kText, "/a/b/0"), "1.50");
  EXPECT_EQ(At(kText, "/a/b/1/c"), "\"x,}]\\\"\"");
  EXPECT_EQ(At(kText, "/a/b/2"), "[ ]");
  EXPECT_EQ(At(kText, "/n"), "null");
  EXPECT_EQ(At(kText, "/a~1b"), "1");
  EXPECT_EQ(At(kText, "/m~0n"), "2");
  EXPECT_EQ(At(kText, "/e"), "3");
  EXPECT_EQ(At(kText, "/"), "4");
  EXPECT_EQ(At(kText, "/0"), "5");
  EXPECT_EQ(At(kText, "").substr(0, 2), "{ ");
  EXPECT_EQ(At("7", ""), "7");
}

TEST(JsonSpanTest, NothingIsFoundWhereNothingIs) {
  for (const auto pointer : {"/x", "/a/x", "/a/0/x", "/b/3", "/b/-", "/b/00", "/c/d"}) {
    EXPECT_EQ(At(R"({"a":{"0":1},"b":[1,2,3],"c":"d"})", pointer), "nothing") << pointer;
  }
}

TEST(JsonSpanTest, APlainTextKeepsItsNumbers) {
  EXPECT_EQ(PlainJsonText(" { \"a\" : [ 1.0 , -0, 1e2 ,true ] ,\n\"b \\\" c\":\"\\u0041\\/\" } "),
            R"({"a":[1.0,-0,1e2,true],"b \" c":"A/"})");
  EXPECT_EQ(PlainJsonText("\"a b\""), "\"a b\"");
}

// The same places as the reader of values finds.
TEST(JsonSpanTest, ItAgreesWithAtPointer) {
  constexpr std::string_view kText = R"({"a":[{"b":[[],{}]},{"c":{"d":"e"}}],"f":{"g":[0]}})";
  const auto json = ParseJson(kText);
  for (const auto pointer : {"/a", "/a/0", "/a/0/b", "/a/0/b/0", "/a/0/b/1", "/a/1/c/d", "/f/g/0",
                             "/f/g", "/a/2", "/a/0/c", "/f/g/0/x"}) {
    const Json* value = AtPointer(*json, pointer);
    const std::string text = At(kText, pointer);
    ASSERT_EQ(value != nullptr, text != "nothing") << pointer;
    if (value != nullptr) EXPECT_EQ(CanonicalJson(*ParseJson(text)), CanonicalJson(*value));
  }
}

}  // namespace
}  // namespace recourse::json_span_test
