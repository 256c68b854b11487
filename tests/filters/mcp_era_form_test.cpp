#include <gtest/gtest.h>

#include "filters/mcp/era_form.h"

namespace recourse::mcp_era_form_test {
namespace {

std::string Result(const std::string& inside) {
  return R"({"jsonrpc":"2.0","result":)" + inside + "}";
}

std::string Modern(const std::string& inside) { return InFormOf(McpEra::kModern, Result(inside)); }
std::string Legacy(const std::string& inside) { return InFormOf(McpEra::kLegacy, Result(inside)); }

constexpr const char* kOwn =
    R"("content":[],"structuredContent":{"resultType":"complete","own": [1.0, {"x":"\u00e9"}]} ,)"
    R"("vendor" : {"resultType":"complete"})";

TEST(McpEraForm, AModernClientIsToldThatAResultOfBeforeIsComplete) {
  const std::string own(kOwn);
  EXPECT_EQ(Modern("{" + own + "}"), Result(R"({"resultType":"complete",)" + own + "}"));
  EXPECT_EQ(Modern("{ }"), Result(R"({"resultType":"complete" })"));
}

TEST(McpEraForm, AnOlderClientIsNotToldWhatItDoesNotKnow) {
  const std::string own(kOwn);
  EXPECT_EQ(Legacy(R"({"resultType":"complete",)" + own + "}"), Result("{" + own + "}"));
  EXPECT_EQ(Legacy("{" + own + R"( , "resultType" : "complete" })"), Result("{" + own + " }"));
  EXPECT_EQ(Legacy(R"({"a":1, "resultTyp\u0065":"complete", "b":2})"),
            Result(R"({"a":1,  "b":2})"));
  EXPECT_EQ(Legacy(R"({"\"resultType":0,"resultType":"complete"})"),
            Result(R"({"\"resultType":0})"));
  EXPECT_EQ(Legacy(R"({"resultType":"complete"})"), Result("{}"));
}

// As servers of both eras do it themselves.
TEST(McpEraForm, WhatIsNoObjectIsWrappedForAnOlderClient) {
  EXPECT_EQ(Legacy(R"({"structuredContent":[1,2],"content":[]})"),
            Result(R"({"structuredContent":{"result":[1,2]},"content":[]})"));
  const std::string list = R"({"resultType":"complete","structuredContent":[1,2]})";
  EXPECT_EQ(Modern(list), Result(list));
}

TEST(McpEraForm, EachErasOwnResultKeepsItsBytes) {
  const std::string own(kOwn);
  for (const std::string& inside :
       {R"({"resultType":"complete",)" + own + "}",
        std::string(R"({"resultType":"input_required","requestState":"s"})"),
        std::string(R"({"task":{"taskId":"t"}})"), std::string("[1]"), std::string("7")}) {
    EXPECT_EQ(Modern(inside), Result(inside));
  }
  EXPECT_EQ(Legacy("{" + own + "}"), Result("{" + own + "}"));
  const std::string error = R"({"jsonrpc":"2.0","error":{"code":1,"message":"m"}})";
  EXPECT_EQ(InFormOf(McpEra::kModern, error), error);
  EXPECT_EQ(InFormOf(McpEra::kLegacy, error), error);
}

}  // namespace
}  // namespace recourse::mcp_era_form_test
