#include "policy/model/method_override.h"

#include <gtest/gtest.h>

#include "policy/model/override_scan.h"
#include "proxy/base/limits.h"

namespace recourse::method_override_test {
namespace {

TEST(MethodOverrideTest, MethodOverridesInTheQueryAreSeenInAnySpelling) {
  for (const char* query :
       {"_method=DELETE", "?_method=DELETE", "a=1&_method=PUT", "x-http-method-override=PUT",
        "X-HTTP-Method-Override=PUT", "x_http_method_override=PUT", "%5fmethod=DELETE",
        "X-HTTP-Method=PUT", "x-method-override=PUT", "a=1;_method=DELETE", "_METHOD=delete",
        "x-method=PUT", "_method[]=DELETE", ".method=DELETE", "++_method=DELETE",
        "_method%00x=DELETE", "_method[x]=DELETE", "%EF%BC%BFmethod=DELETE", "_HttpMethod=PATCH"}) {
    EXPECT_TRUE(HasMethodOverride(query)) << query;
  }
  for (const char* query : {"", "?", "method=card", "payment_method=card", "q=_method",
                            "shipping-method=air", "http_method=GET", "a=1&b=2"}) {
    EXPECT_FALSE(HasMethodOverride(query)) << query;
  }
}

constexpr char kForm[] = "application/x-www-form-urlencoded";
constexpr char kParts[] = "multipart/form-data; boundary=xx";

// Feeds `body` in pieces of `step` bytes; the bytes that went by before the override was seen, or
// npos when it never was.
std::size_t SeenAt(std::string_view type, std::string_view body, std::size_t step) {
  OverrideScan scan(type);
  for (std::size_t at = 0; at < body.size(); at += step) {
    if (scan.Feed(body.substr(at, step))) return at;
  }
  return std::string_view::npos;
}

std::string Part(const std::string& head, const std::string& content = "DELETE") {
  return "--xx\r\n" + head + "\r\n\r\n" + content + "\r\n--xx--\r\n";
}

class OverrideScanStep : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OverrideScanStep, OverridesInFormsAreSeenBeforeTheirValue) {
  for (const std::string body :
       {"_method=DELETE", "a=b&_method=DELETE", "a=b;_method=DELETE", "a=b=c&_METHOD=DELETE",
        "%5fmethod=DELETE", "a=b&_method%5B%5D=DELETE", "x-http-method-override=DELETE",
        ".method=DELETE", "a=b&++%20_method=DELETE", "_method%00x=DELETE", "_method[x]=DELETE"}) {
    const std::size_t seen = SeenAt(kForm, body, GetParam());
    ASSERT_NE(seen, std::string_view::npos) << body;
    EXPECT_LE(seen, body.find("DELETE")) << body;
    EXPECT_NE(SeenAt("Application/X-WWW-Form-URLEncoded ;charset=utf-8", body, GetParam()),
              std::string_view::npos);
    EXPECT_EQ(SeenAt("text/plain", body, GetParam()), std::string_view::npos);
  }
  for (const std::string& part :
       {Part("Content-Disposition: form-data; name=\"_method\""),
        Part("content-disposition:form-data;name=_method"),
        Part("Content-Type: text/plain\r\nContent-Disposition: form-data; x=y; NAME = \"_method\""),
        Part("Content-Disposition: form-data;\r\n name=\"_method\""),
        Part("Content-Disposition: form-data; name='_method'"),
        Part("Content-Disposition: form-data; name=\"a\"; name=\"_method\""),
        Part("Content-Disposition: form-data; name=\"a\"; NAME=_method; filename=\"b\""),
        Part("Content-Disposition: form-data; name=\"_m\\ethod\""),
        Part("Content-Disposition: form-data; name*=utf-8''%5Fmethod"),
        Part("Content-Disposition: form-data; name*0=\"_me\"; name*1=\"thod\""),
        Part("Content-Disposition: form-data; name=\"=?utf-8?q?=5Fmethod?=\""),
        Part("Content-Disposition : form-data; name=_method"),
        Part("X: y\rContent-Disposition: form-data; name=_method")}) {
    const std::size_t seen = SeenAt(kParts, part, GetParam());
    ASSERT_NE(seen, std::string_view::npos) << part;
    EXPECT_LE(seen, part.find("DELETE")) << part;
  }
}

TEST_P(OverrideScanStep, WhatOnlyLooksLikeAnOverrideIsNone) {
  for (const char* body : {"method=card", "a=_method", "a==_method=x",
                           "payment_method=x&_methods=y", "=_method", ""}) {
    EXPECT_EQ(SeenAt(kForm, body, GetParam()), std::string_view::npos) << body;
  }
  for (const std::string& part :
       {Part("Content-Disposition: form-data; name=\"a\"; filename=\"_method\""),
        Part("Content-Disposition: form-data; name=\"a\"",
             "<input type=hidden name=\"_method\" value=delete>\r\n name=\"_method\"\r\n")}) {
    EXPECT_EQ(SeenAt(kParts, part, GetParam()), std::string_view::npos) << part;
  }
}

TEST_P(OverrideScanStep, LaravelTakesAMemberOfJsonForAField) {
  for (const std::string body :
       {R"({"_method":"DELETE"})", R"({"a":{"b":[1,"x\"y"]},"_method":"DELETE"})",
        R"({"a":"\\","\u005fmethod" : "DELETE"})", R"( {"_METHOD":"DELETE"})"}) {
    for (const char* type : {"application/json", "application/vnd.api+json", "text/x; a=/json"}) {
      const std::size_t seen = SeenAt(type, body, GetParam());
      ASSERT_NE(seen, std::string_view::npos) << body;
      EXPECT_LE(seen, body.find("DELETE")) << body;
    }
    EXPECT_EQ(SeenAt("text/plain", body, GetParam()), std::string_view::npos);
  }
  for (const char* body :
       {R"({"method":"x"})", R"({"a":{"_method":"x"}})", R"(["_method","_method"])",
        R"({"a":"_method","b":["_method"]})", R"("_method")", "", "{"}) {
    EXPECT_EQ(SeenAt("application/json", body, GetParam()), std::string_view::npos) << body;
  }
}

TEST_P(OverrideScanStep, WhereAStringEndsCountsWhereverThatIs) {
  for (std::size_t size = 0; size < 40; ++size) {
    const std::string value(size, 'x');
    for (const char* end : {"\"", "\\\"\"", "\\\\\""}) {
      const std::string body = "{\"a\":\"" + value + end + ",\"_method\":1}";
      EXPECT_NE(SeenAt("application/json", body, GetParam()), std::string_view::npos) << body;
    }
    const std::string within = "{\"a\":\"" + value + "\\\",\\\"_method\\\":1\"}";
    EXPECT_EQ(SeenAt("application/json", within, GetParam()), std::string_view::npos) << within;
  }
}

TEST(MethodOverrideTest, NoLettersInAnotherOrderHideAName) {
  for (const char* name : {"x-m-ethod", "X_Method_Over_Ride", "_METHOD", "__method", "_method0"}) {
    EXPECT_TRUE(IsOverrideName(name)) << name;
  }
  for (const char* name : {"mmethod", "memethod", "payment_method", "method", "x-methods", ""}) {
    EXPECT_FALSE(IsOverrideName(name)) << name;
  }
}

TEST_P(OverrideScanStep, WhatHasLettersThatAreNoAsciiIsNotPassedOn) {
  for (const char* type :
       {"application/x-www-form-urlencoded; charset=utf-7",
        "multipart/form-data; boundary=xx; charset='utf-16'",
        "application/x-www-form-urlencoded;charset = ibm037", "application/json; charset=utf-7",
        "text/json;charset*=utf-16''", "application/json; charset*=utf-8''utf-7"}) {
    EXPECT_EQ(SeenAt(type, "+AF8-method=DELETE", GetParam()), 0u) << type;
  }
  for (const char* type :
       {"application/x-www-form-urlencoded; charset=iso-8859-1",
        "application/x-www-form-urlencoded; charset=\"UTF-8\"", "text/plain; charset=utf-7"}) {
    EXPECT_EQ(SeenAt(type, "a=b", GetParam()), std::string_view::npos) << type;
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, OverrideScanStep, ::testing::Values(1, 2, 7, 1000));

TEST(OverrideScanTest, LongNamesAndLinesTakeBoundedMemoryAndEnd) {
  const std::string longs(100'000, 'a');
  EXPECT_EQ(SeenAt(kForm, longs + "=b&a=_method", 1000), std::string_view::npos);
  EXPECT_NE(SeenAt(kForm, longs + "=b&_method=x", 1000), std::string_view::npos);
  EXPECT_NE(
      SeenAt(kParts, longs + "\r\n" + Part("Content-Disposition: form-data; name=_method"), 1000),
      std::string_view::npos);
  EXPECT_NE(SeenAt(kForm, "_method%00" + longs + "=DELETE", 1000), std::string_view::npos);
  EXPECT_NE(SeenAt(kForm, std::string(1000, '+') + "_method=x", 1000), std::string_view::npos);
  EXPECT_NE(
      SeenAt(kParts, Part("Content-Disposition: form-data; a=" + longs + "; name=_method"), 1000),
      std::string_view::npos);
  EXPECT_NE(SeenAt("application/json", "{\"" + longs + "\":1,\"_method\":2}", 1000),
            std::string_view::npos);
}

TEST(OverrideScanTest, ALineThatSaysItsNameVeryOftenIsNotLookedThrough) {
  const auto is_refused = [](std::size_t names) {
    std::string body = "--x\r\nContent-Disposition: form-data";
    for (std::size_t i = 0; i < names; ++i) body += "; name=a";
    OverrideScan scan("multipart/form-data; boundary=x");
    return scan.Feed(body + "\r\n\r\n1\r\n--x--\r\n");
  };
  EXPECT_FALSE(is_refused(limits::kPartNamesMax));
  EXPECT_TRUE(is_refused(limits::kPartNamesMax + 1));
}

}  // namespace
}  // namespace recourse::method_override_test
