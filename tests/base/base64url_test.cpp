#include "proxy/base/crypto/base64url.h"

#include <gtest/gtest.h>

namespace recourse::base64url_test {
namespace {

TEST(Base64UrlTest, EveryLengthComesBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    const std::string text = ToBase64Url(bytes);
    EXPECT_EQ(text.find_first_of("+/="), std::string::npos);
    ASSERT_TRUE(FromBase64Url(text));
    EXPECT_EQ(*FromBase64Url(text), bytes);
    bytes.push_back(static_cast<char>(i * 37));
  }
  EXPECT_EQ(ToBase64Url("\xfb\xff"), "-_8");
}

TEST(Base64UrlTest, WhatNoEncoderWritesIsRefused) {
  for (const char* text : {"A", "AAAAA", "AA==", "AA=", "A A", "AA\n", "+_8", "/w", "-_9", "AB"}) {
    EXPECT_FALSE(FromBase64Url(text)) << text;
  }
}

}  // namespace
}  // namespace recourse::base64url_test
