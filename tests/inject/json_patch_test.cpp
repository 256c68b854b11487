#include "proxy/inject/json_patch.h"

#include <gtest/gtest.h>

#include "proxy/base/json/json_span.h"
#include "tests/inject/pods.h"

namespace recourse::json_patch_test {
namespace {

TEST(JsonPatch, NumbersAreWrittenAsKubernetesReadsThem) {
  for (const char* const text : {"0", "19080", "1000000", "-7", "0.5", "9007199254740993"}) {
    EXPECT_EQ(PlainJson(ParsedJson(text)), text);
  }
  EXPECT_EQ(PlainJson(ParsedJson("1e3")), "1000");
}

TEST(JsonPatch, AValueIsWrittenInItsOwnOrderAndAsItWas) {
  const std::string text = R"({"z":[null,true,false,"a\"\n"],"a":{"":{}},"e":[]})";
  EXPECT_EQ(PlainJson(ParsedJson(text)), text);
}

TEST(JsonPatch, NamesAreEscapedForPointers) {
  EXPECT_EQ(PointerToken("recourse.dev/inject"), "recourse.dev~1inject");
  EXPECT_EQ(PointerToken("~1/"), "~01~1");
  EXPECT_EQ(PointerToken(""), "");
}

TEST(JsonPatch, OperationsStandInTheirOrder) {
  JsonPatch patch;
  EXPECT_TRUE(patch.is_empty());
  EXPECT_EQ(patch.text(), "[]");
  patch.Add("/a", JsonArray({JsonText("x")}));
  patch.Add("/a/-", JsonText("\"/"));
  EXPECT_FALSE(patch.is_empty());
  EXPECT_EQ(patch.text(),
            R"([{"op":"add","path":"/a","value":["x"]},{"op":"add","path":"/a/-","value":"\"/"}])");
}

}  // namespace
}  // namespace recourse::json_patch_test
