#include "policy/uri/path.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/base/limits.h"

namespace recourse::path_test {
namespace {

TEST(PathTest, CanonicalPathsStayTheSameBytesWithoutCopy) {
  for (const std::string path :
       {"/", "/orders", "/orders/7", "/orders/", "/a-b_c~d.e/f", "/Orders/X", "/a/b=c,d",
        "/orders/*", "/orders/$batch", "/user@example", "/v1.2/x:y"}) {
    std::string scratch;
    const auto canonical = CanonicalPath(path, scratch);
    ASSERT_TRUE(canonical) << path << ": " << canonical.error().detail();
    EXPECT_EQ(*canonical, path);
    EXPECT_EQ(canonical->data(), path.data()) << path;
  }
}

TEST(PathTest, EscapesHaveOneForm) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"/orders/dele%74e", "/orders/delete"},  // P17
      {"/orders/%7e%2D", "/orders/~-"},
      {"/caf%c3%a9", "/caf%C3%A9"},
      {"/a%20b", "/a%20b"},
      {"/a%2cb", "/a%2Cb"},
      {"/%E6%97%A5%e6%9c%ac", "/%E6%97%A5%E6%9C%AC"},
      {"/%F0%9F%98%82", "/%F0%9F%98%82"},
  };
  for (const auto& [path, expected] : cases) {
    std::string scratch;
    const auto canonical = CanonicalPath(path, scratch);
    ASSERT_TRUE(canonical) << path << ": " << canonical.error().detail();
    EXPECT_EQ(*canonical, expected);
    std::string again;
    EXPECT_EQ(CanonicalPath(*canonical, again).value(), expected);
  }
}

// In a policy; what requests may have of them, PathReadings and RouteTable say.
TEST(PathTest, PathsWithTwoReadingsAreRefused) {
  for (const std::string path : {
           "/orders/x/../delete",         // P01
           "/orders/%2e%2e/admin",        // P02
           "/orders/..%2fadmin",          // P04
           "/orders/..%5cadmin",          // P05
           "/orders/%252e%252e/admin",    // P07
           "/orders/%25252fdelete",       // P08
           "/orders//delete",             // P10
           "//orders",                    //
           "/orders/./delete",            // P11
           "/orders/delete/.",            // P14
           "/orders/..",                  //
           "/orders/.%2e",                //
           "/orders/.../x",               //
           "/orders/delete%09",           // P19
           "/orders/delete%00",           // P20
           "/orders/delete%00.json",      //
           "/orders/delete;x=1",          // P22
           "/orders/..;/admin",           // P23
           "/orders/..;foo=bar/admin",    //
           "/orders/delete%3bx",          // P25
           "/orders/delete%3Fq=1",        // P26
           "/orders/delete%23",           //
           "/orders/%c0%af",              // P28
           "/orders/%c0%ae%c0%ae",        //
           "/orders/%ff",                 //
           "/orders/%ed%a0%80",           // surrogate
           "/orders/%f4%90%80%80",        // above U+10FFFF
           "/orders/%e0%80%af",           // overlong
           "/orders/%c3",                 // cut
           "/orders/%ef%bc%8fdelete",     // P29
           "/orders/%e2%81%84delete",     //
           "/orders/%e2%88%95delete",     //
           "/orders/%ef%bc%8e%ef%bc%8e",  //
           "/orders/del%e2%80%8bete",     // P31
           "/orders/del%c2%adete",        //
           "/orders/%E2%84%AAey",         // Kelvin sign
           "/orders/%u002e%u002e/",       // P32
           "/orders/%u0064elete",         //
           "/orders/{id}",                // P35
           "/orders/%0adelete",           // P46
           "/orders/%7f",                 //
           "/orders/%c2%85",              // C1 control
           "/orders/%",                   //
           "/orders/%4",                  //
           "/orders/%zz",                 //
           "/orders/a b",                 //
           "/orders/a\\b",                //
           "/orders/a?b",                 //
           "/orders/a#b",                 //
           "/orders/a\"b",                //
           "/orders/caf\xc3\xa9",         //
           "/orders/a\x01",               //
           "orders",                      //
           "*",                           //
           "",                            //
       }) {
    std::string scratch;
    const auto canonical = CanonicalPath(path, scratch);
    EXPECT_FALSE(canonical) << path << " became " << *canonical;
    if (!canonical) {
      EXPECT_FALSE(canonical.error().detail().empty()) << path;
    }
  }
}

TEST(PathTest, TooManySegmentsAreTooLong) {
  std::string path;
  for (std::size_t i = 0; i < limits::kPathSegmentsMax; ++i) path += "/a";
  std::string scratch;
  EXPECT_TRUE(CanonicalPath(path, scratch));
  path += "/a";
  EXPECT_EQ(CanonicalPath(path, scratch).error().code(), ErrorCode::kTargetTooLong);
}

TEST(PathTest, ValuesThatCouldChangeAPathAreNoPathValues) {
  for (const char* good : {"7", "ord_12", "a.b", "a-b~c", "x@y"}) {
    EXPECT_TRUE(IsPathValue(good)) << good;
  }
  for (const char* bad : {"", "a b", ".", "..", "...", "../admin", "a/b", "a\\b", "%2e%2e", "x?y=1",
                          "x#y", "x;y", "*", "a*", "all", "ALL", "caf\xc3\xa9", "a\nb", "a\x7f"}) {
    EXPECT_FALSE(IsPathValue(bad)) << bad;
  }
}

TEST(PathTest, FoldingLeavesNeededEscapesAlone) {
  EXPECT_EQ(FoldPath("/A%C3%89/B%20"), "/a%C3%A9/b%20");
  EXPECT_EQ(FoldPath("/%EF%BC%A3ancel/%C4%B1d/%E9%87%91"), "/cancel/id/%E9%87%91");
  EXPECT_EQ(FoldPath("/Orders%3ACancel"), "/orders:cancel");
}

}  // namespace
}  // namespace recourse::path_test
