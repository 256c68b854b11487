#include "proxy/base/json/json_object.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "proxy/base/json/json_line.h"

namespace recourse::json_object_test {
namespace {

TEST(JsonObjectTest, WritesMembersInOrderAndClosesItself) {
  std::string out = "before";
  {
    JsonObject json(out);
    json.Text("text", "a \"b\"\n");
    json.TextIfAny("nothing", "");
    json.TextIfAny("something", "s");
    json.Number("most", std::numeric_limits<std::uint64_t>::max());
    json.Number("least", std::numeric_limits<std::int64_t>::min());
    json.Bool("yes", true);
    json.Raw("raw", "[1]");
    JsonObject inner(json.Value("inner"));
    inner.Bool("no", false);
  }
  EXPECT_EQ(out, R"(before{"text":"a \"b\"\n","something":"s","most":18446744073709551615,)"
                 R"("least":-9223372036854775808,"yes":true,"raw":[1],"inner":{"no":false}})");
}

TEST(JsonObjectTest, AnArrayLeavesOutWhatIsNotWritten) {
  const std::vector<int> numbers = {1, 2, 3, 4};
  const auto odd = [](std::string& out, int number) {
    if (number % 2 == 1) out += std::to_string(number);
  };
  const auto none = [](std::string&, int) {};
  std::string out;
  {
    JsonObject json(out);
    json.Each("odd", numbers, odd);
    json.Each("none", numbers, none);
    json.Each("last", std::vector<int>{2, 3}, odd);
    json.Texts("texts", std::vector<std::string>{"", "b"});
  }
  EXPECT_EQ(out, R"({"odd":[1,3],"none":[],"last":[3],"texts":["","b"]})");
  out.clear();
  {
    const JsonObject json(out);
  }
  EXPECT_EQ(out, "{}");
}

TEST(JsonObjectTest, MembersJoinThoseThatAreThere) {
  const auto one = [](JsonObject& json) { json.Number("one", 1); };
  std::string behind = ObjectText(one), alone = "{}", front = R"({"a":{ "b":2},"c":{ }})";
  AppendMembers(behind, one);
  EXPECT_EQ(behind, R"({"one":1,"one":1})");
  AppendMembers(alone, one);
  EXPECT_EQ(alone, R"({"one":1})");
  PrependMembers(front, front.find("{ }"), one);
  PrependMembers(front, front.find("{ \"b"), one);
  EXPECT_EQ(front, R"({"a":{"one":1, "b":2},"c":{"one":1 }})");
}

TEST(JsonObjectTest, ValuesOfOthersStayAsTheyCame) {
  const auto value = ParseJson(R"({"a \"b\"":[1.50,-2e70,null,{}],"c":[true,"\u0001"]})");
  ASSERT_TRUE(value);
  std::string out;
  EXPECT_TRUE(AppendPlainJson(out, *value));
  EXPECT_EQ(out, R"({"a \"b\"":[1.5,-2e70,null,{}],"c":[true,"\u0001"]})");
  EXPECT_FALSE(AppendPlainJson(out, *value, 20));
}

TEST(JsonLineTest, WritesWhatAnObjectWouldSay) {
  JsonLine line;
  line.Raw(R"({"ts":"x.000Z")");
  line.ThreeAt(9, 7);
  line.PlainIfAny<"plain">(std::string_view("p"));
  line.PlainIfAny<"nothing">(std::string_view());
  line.TextIfAny<"text">("a\"b");
  line.Number<"n">(7);
  line.Bool<"yes">(true);
  line.Millis<"ms">(std::chrono::microseconds(12'034));
  line.Members(R"({"a":1,"b":false})");
  line.Raw("}");
  EXPECT_EQ(line.view(), R"({"ts":"x.007Z","plain":"p","text":"a\"b","n":7,"yes":true,)"
                         R"("ms":12.034,"a":1,"b":false})");
}

}  // namespace
}  // namespace recourse::json_object_test
