#include "proxy/admin/access/csrf_guard.h"

#include <gtest/gtest.h>

namespace recourse::browser_guard_test {
namespace {

TEST(BrowserGuardTest, AHostIsAnAddressOrAKnownName) {
  const std::vector<std::string> hosts{"ops.example"};
  for (const char* own : {"127.0.0.1", "127.0.0.1:19081", "10.0.0.7", "[::1]", "[fd00::1]:443",
                          "localhost", "LocalHost:1", "ops.example", "OPS.example:443"}) {
    EXPECT_TRUE(IsOwnHost(own, hosts)) << own;
  }
  for (const char* foreign :
       {"", "evil.example", "localhost.evil.example", "ops.example.evil", "x.ops.example",
        "127.0.0.1.evil", "localhost:", "localhost:x", "localhost:1:2", "[::1", "[::1]x", "[evil]",
        "localhost.", "1", "0x7f.1", "127.1"}) {
    EXPECT_FALSE(IsOwnHost(foreign, hosts)) << foreign;
  }
}

TEST(BrowserGuardTest, WhatTheBrowserSaysOfThePageMustAgree) {
  const auto judge = [](Headers headers, bool is_secure = false) {
    headers.emplace_back("Host", "ops.example:8443");
    return OriginOf(headers, is_secure);
  };
  const char* const own = "https://ops.example:8443";
  EXPECT_EQ(judge({}), Origin::kUnsaid);
  EXPECT_EQ(judge({{"Origin", own}}), Origin::kOwn);
  EXPECT_EQ(judge({{"Origin", own}}, true), Origin::kOwn);
  EXPECT_EQ(judge({{"Origin", "http://ops.example:8443"}}), Origin::kOwn);
  EXPECT_EQ(judge({{"Origin", "http://ops.example:8443"}}, true), Origin::kForeign);
  EXPECT_EQ(judge({{"Sec-Fetch-Site", "same-origin"}}), Origin::kOwn);
  EXPECT_EQ(judge({{"Sec-Fetch-Site", "same-origin"}, {"Origin", own}}), Origin::kOwn);
  EXPECT_EQ(judge({{"Sec-Fetch-Site", "cross-site"}, {"Origin", own}}), Origin::kForeign);
  EXPECT_EQ(judge({{"Sec-Fetch-Site", "none"}}), Origin::kForeign);
  for (const char* origin :
       {"null", "", "https://ops.example", "https://ops.example:8443/", "https://evil.example:8443",
        "ops.example:8443", "https://ops.example:8443.evil", "file://ops.example:8443"}) {
    EXPECT_EQ(judge({{"Origin", origin}}), Origin::kForeign) << origin;
    EXPECT_EQ(judge({{"Sec-Fetch-Site", "same-origin"}, {"Origin", origin}}), Origin::kForeign);
  }
}

TEST(BrowserGuardTest, ACookieIsFoundAmongOthersAndAFewOfItsNameAreRead) {
  const Headers headers{{"Cookie", "a=1; s=x;s=y ; xs=z; s"}, {"cookie", "s=w"}};
  EXPECT_EQ(CookiesOf(headers, "s"), (std::vector<std::string_view>{"x", "y", "w"}));
  EXPECT_EQ(CookiesOf({{"Cookie", "s=1;s=2;s=3;s=4;s=5"}}, "s").size(), 4U);
  EXPECT_TRUE(CookiesOf({{"Cookie", ";;="}}, "s").empty());
}

}  // namespace
}  // namespace recourse::browser_guard_test
