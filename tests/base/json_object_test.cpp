#include "proxy/base/json/json_object.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace recourse::json_object_test
