#include <gtest/gtest.h>

#include <string>

#include "filters/mcp/param_fields.h"

namespace recourse::mcp_param_fields_test {
namespace {

std::vector<ParamField> Fields(const std::string& properties, const std::string& more = "") {
  const auto schema =
      ParseJson(R"({"type":"object","properties":{)" + properties + "}" + more + "}");
  EXPECT_TRUE(schema.has_value());
  return ParamFieldsOf(*schema);
}

std::string Text(const std::vector<ParamField>& fields) {
  std::string text;
  for (const auto& [name, pointer] : fields) text += name + "=" + pointer + " ";
  return text;
}

constexpr const char* kRegion = R"("region":{"type":"string","x-mcp-header":"Region"})";
constexpr const char* kCount = R"("count":{"type":"integer","x-mcp-header":"Count"})";

TEST(McpParamFieldsTest, TheSchemaSaysWhichArgumentsAreRepeated) {
  EXPECT_EQ(Text(Fields("")), "");
  EXPECT_EQ(Text(Fields(R"("item":{"type":"string"})")), "");
  EXPECT_EQ(Text(Fields(kRegion)), "Mcp-Param-Region=/region ");
  EXPECT_EQ(Text(Fields(std::string(R"("to":{"type":"object","properties":{)") + kRegion + "}}," +
                        kCount)),
            "Mcp-Param-Region=/to/region Mcp-Param-Count=/count ");
}

// Then servers compare none.
TEST(McpParamFieldsTest, OneThatIsAgainstTheRulesTakesAllOthersAlong) {
  for (const char* bad :
       {R"("a":{"type":"object","x-mcp-header":"A"})", R"("a":{"type":"string","x-mcp-header":""})",
        R"("a":{"type":"string","x-mcp-header":"A B"})", R"("a":{"x-mcp-header":"A"})",
        R"("a":{"type":"string","x-mcp-header":"region"})",
        R"("a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}})"}) {
    EXPECT_EQ(Text(Fields(std::string(kRegion) + "," + bad)), "") << bad;
  }
  EXPECT_EQ(Text(Fields(kRegion, R"(,"$defs":{"x":{"type":"string","x-mcp-header":"X"}})")), "");
}

TEST(McpParamFieldsTest, AFieldRepeatsItsArgumentHoweverBothAreWritten) {
  const auto fields = Fields(std::string(kRegion) + "," + kCount +
                             R"(,"fast":{"type":"boolean","x-mcp-header":"Fast"})");
  const auto why = [&](const std::string& arguments, const Headers& headers) {
    return ParamMismatch(fields, *ParseJson(arguments), headers);
  };
  EXPECT_EQ(why("{}", {}), "");
  EXPECT_EQ(why("{}", {{"Mcp-Param-Region", "eu"}}), "");
  EXPECT_EQ(why(R"({"region":null})", {}), "");
  EXPECT_EQ(why(R"({"region":"eu"})", {}), "Mcp-Param-Region is missing");
  EXPECT_EQ(why(R"({"region":"eu"})", {{"mcp-param-region", "eu"}}), "");
  EXPECT_EQ(why(R"({"region":"eu"})", {{"Mcp-Param-Region", "=?base64?ZXU=?="}}), "");
  EXPECT_EQ(why(R"({"region":"eu"})", {{"Mcp-Param-Region", "us"}}),
            "Mcp-Param-Region says something else than the body");
  EXPECT_EQ(why(R"({"count":42})", {{"Mcp-Param-Count", "42.0"}}), "");
  EXPECT_EQ(why(R"({"count":4.2e1})", {{"Mcp-Param-Count", "42"}}), "");
  EXPECT_EQ(why(R"({"count":42})", {{"Mcp-Param-Count", "43"}}),
            "Mcp-Param-Count says something else than the body");
  EXPECT_EQ(why(R"({"count":12345678901234567890})", {}), "");
  EXPECT_EQ(why(R"({"fast":true})", {{"Mcp-Param-Fast", "true"}}), "");
  EXPECT_EQ(why(R"({"fast":true})", {{"Mcp-Param-Fast", "True"}}),
            "Mcp-Param-Fast says something else than the body");
}

}  // namespace
}  // namespace recourse::mcp_param_fields_test
