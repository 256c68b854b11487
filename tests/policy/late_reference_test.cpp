// The undo of a write whose outcome was unknown, from the call and the reference found later.
#include "policy/template/late_reference.h"

#include <gtest/gtest.h>

#include <string>

#include "proxy/base/limits.h"

namespace recourse::late_reference_test {
namespace {

const std::string kKey(64, 'a');

// The undo rendered without its reference, and then filled; or why it is refused.
std::string Filled(const char* line, const std::string& reference, Headers headers = {},
                   const std::string& body = {}) {
  CallValues values;
  values.external_ref = LateReference(kKey);
  auto request = Render(*ParseRequestLine(line), values);
  if (!request) return "not rendered";
  request->headers = std::move(headers);
  request->body = body;
  EXPECT_TRUE(LacksReference(*request, kKey)) << line;
  const auto filled = FillReference(std::move(*request), kKey, reference);
  if (!filled) return "refused";
  EXPECT_FALSE(LacksReference(*filled, kKey)) << line;
  std::string out = filled->target;
  for (const auto& [name, value] : filled->headers) out += " | " + name + ": " + value;
  return filled->body.empty() ? out : out + " | " + filled->body;
}

TEST(LateReferenceTest, AReferenceGoesWhereRenderWouldHavePutIt) {
  const std::string mark = LateReference(kKey);
  EXPECT_EQ(Filled("DELETE /orders/{external_ref}", "o:7"), "/orders/o%3A7");
  EXPECT_EQ(Filled("DELETE /o/x-{external_ref}/{external_ref}", "7"), "/o/x-7/7");
  EXPECT_EQ(Filled("DELETE /o?ref={external_ref}&a=b", "a&b=c d"), "/o?ref=a%26b%3Dc%20d&a=b");
  EXPECT_EQ(Filled("POST /o?r={external_ref}", "7", {{"X-Ref", "r " + mark}}),
            "/o?r=7 | X-Ref: r 7");
  EXPECT_EQ(Filled("POST /o?r={external_ref}", "q\"\\", {}, "{\"ref\":\"" + mark + "\"}"),
            "/o?r=q%22%5C | {\"ref\":\"q\\\"\\\\\"}");
  EXPECT_EQ(Filled("POST /o?r={external_ref}", "a&b",
                   {{"Content-Type", "application/x-www-form-urlencoded"}}, "ref=" + mark),
            "/o?r=a%26b | Content-Type: application/x-www-form-urlencoded | ref=a%26b");
}

TEST(LateReferenceTest, AHostileReferenceIsRefusedAsRenderWould) {
  for (const char* reference : {"", "../admin", "..", "x/y", "x?y", "%2e", "a\r\nb", "*", "all"}) {
    EXPECT_EQ(Filled("DELETE /orders/{external_ref}", reference), "refused") << reference;
  }
  const std::string mark = LateReference(kKey);
  for (const char* reference : {"*", "all", "ord-*"}) {
    EXPECT_EQ(Filled("DELETE /o?r={external_ref}", reference), "refused") << reference;
    EXPECT_EQ(Filled("POST /o", reference, {}, "{\"ref\":\"" + mark + "\"}"), "refused");
  }
  EXPECT_EQ(
      Filled("DELETE /o?r={external_ref}", std::string(limits::kExternalRefBytesMax + 1, 'x')),
      "refused");
  EXPECT_EQ(Filled("DELETE /o?r={external_ref}", "a\nb"), "refused");
}

TEST(LateReferenceTest, WhatHasItsReferenceLacksNone) {
  EXPECT_FALSE(LacksReference({"DELETE", "/orders/7", {{"X-A", "b"}}, "{}"}, kKey));
  EXPECT_FALSE(LacksReference({"DELETE", "/" + LateReference("other"), {}, ""}, kKey));
}

}  // namespace
}  // namespace recourse::late_reference_test
