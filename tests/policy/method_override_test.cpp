#include "policy/method_override.h"

#include <gtest/gtest.h>

namespace recourse::method_override_test {
namespace {

TEST(MethodOverrideTest, MethodOverridesInTheQueryAreSeenInAnySpelling) {
  for (const char* query :
       {"_method=DELETE", "?_method=DELETE", "a=1&_method=PUT", "x-http-method-override=PUT",
        "X-HTTP-Method-Override=PUT", "x_http_method_override=PUT", "%5fmethod=DELETE",
        "X-HTTP-Method=PUT", "x-method-override=PUT", "a=1;_method=DELETE", "_METHOD=delete",
        "x-method=PUT", "_method[]=DELETE"}) {
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
  FormOverrideScan scan(type);
  for (std::size_t at = 0; at < body.size(); at += step) {
    if (scan.Feed(body.substr(at, step))) return at;
  }
  return std::string_view::npos;
}

std::string Part(const std::string& head, const std::string& content = "DELETE") {
  return "--xx\r\n" + head + "\r\n\r\n" + content + "\r\n--xx--\r\n";
}

class FormOverrideScanStep : public ::testing::TestWithParam<std::size_t> {};

TEST_P(FormOverrideScanStep, OverridesInFormsAreSeenBeforeTheirValue) {
  for (const std::string body :
       {"_method=DELETE", "a=b&_method=DELETE", "a=b;_method=DELETE", "a=b=c&_METHOD=DELETE",
        "%5fmethod=DELETE", "a=b&_method%5B%5D=DELETE", "x-http-method-override=DELETE"}) {
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
        Part("Content-Disposition: form-data;\r\n name=\"_method\"")}) {
    const std::size_t seen = SeenAt(kParts, part, GetParam());
    ASSERT_NE(seen, std::string_view::npos) << part;
    EXPECT_LE(seen, part.find("DELETE")) << part;
  }
}

TEST_P(FormOverrideScanStep, WhatOnlyLooksLikeAnOverrideIsNone) {
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

INSTANTIATE_TEST_SUITE_P(Steps, FormOverrideScanStep, ::testing::Values(1, 2, 7, 1000));

TEST(FormOverrideScanTest, LongNamesAndLinesTakeBoundedMemoryAndEnd) {
  const std::string longs(100'000, 'a');
  EXPECT_EQ(SeenAt(kForm, longs + "=b&a=_method", 1000), std::string_view::npos);
  EXPECT_NE(SeenAt(kForm, longs + "=b&_method=x", 1000), std::string_view::npos);
  EXPECT_NE(
      SeenAt(kParts, longs + "\r\n" + Part("Content-Disposition: form-data; name=_method"), 1000),
      std::string_view::npos);
}

}  // namespace
}  // namespace recourse::method_override_test
