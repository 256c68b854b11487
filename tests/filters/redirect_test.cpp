// Where a redirect of a write may lead.
#include "filters/call/redirect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/world.h"

namespace recourse::redirect_test {
namespace {

using Kind = RedirectPlan::Kind;

const std::shared_ptr<const Policy>& Rules() {
  static const auto policy = PolicyOf(R"(
version: 1
backends:
  shop: { url: "http://shop.svc:8080/api", hosts: [ shop.test ] }
  pay:  { url: "http://127.0.0.1:9000" }
)");
  return policy;
}

RedirectPlan Of(std::size_t backend, std::string_view location, int status = 307) {
  return PlanRedirect(*Rules(), Rules()->backends[backend], status, location);
}

TEST(RedirectTest, WhatLeadsToTheBackendByAnotherDoorComesBackThroughUs) {
  for (const char* const location :
       {"http://shop.svc:8080/api/v2?x=1", "HTTP://SHOP.svc:8080/api/v2?x=1",
        "//shop.svc:8080/api/v2?x=1", "http://shop.test/api/v2?x=1",
        "http://u:p@shop.svc:8080/api/v2?x=1"}) {
    const RedirectPlan plan = Of(0, location, 308);
    EXPECT_EQ(plan.kind, Kind::kRewrite) << location;
    EXPECT_EQ(plan.location, "/v2?x=1") << location;
  }
  EXPECT_EQ(Of(1, "http://localhost:9000").location, "/");
  EXPECT_EQ(Of(1, "http://[::1]:9000/a").location, "/a");
}

TEST(RedirectTest, WhatLeadsPastUsIsRefusedWithTheFix) {
  for (const char* const location :
       {"http://shop.svc:8080/v2?token=s", "https://shop.svc:8080/api/v2", "http://shop.svc/api/v2",
        "http://127.0.0.1:9000/api/v2", "http://elsewhere.test/api", "http://shop.svc:8080/api//x/",
        "http://shop.svc:8080/apix", "http://a b/"}) {
    const RedirectPlan plan = Of(0, location);
    EXPECT_EQ(plan.kind, Kind::kRefuse) << location;
    EXPECT_THAT(plan.why, testing::HasSubstr("put that url in the policy"));
    EXPECT_THAT(plan.why, testing::Not(testing::HasSubstr("token"))) << "it may be secret";
  }
}

// Each leads to the host itself with fetch of Node and browsers, Python's requests or curl.
TEST(RedirectTest, WhatClientsReadAsAbsoluteIsJudgedAsThat) {
  for (const char* const location :
       {R"(http:\\shop.svc:8080\api/v2)", R"(\\shop.svc:8080/api/v2)", R"(/\shop.svc:8080/api/v2)",
        R"(\/shop.svc:8080\api\v2)", "///shop.svc:8080/api/v2", "/\t/shop.svc:8080/api/v2",
        "ht\ttp://shop.svc:8080/api/v2", "http:/shop.svc:8080/api/v2", "http:shop.svc:8080/api/v2",
        "http:////shop.svc:8080/api/v2", " \x01http://shop.svc:8080/api/v2\t "}) {
    const RedirectPlan plan = Of(0, location);
    EXPECT_EQ(plan.kind, Kind::kRewrite) << location;
    EXPECT_EQ(plan.location, "/v2") << location;
  }
  for (const char* const location :
       {R"(http:\\elsewhere.test)", R"(\\elsewhere.test)", R"(/\elsewhere.test)",
        "/\t/elsewhere.test", "h\tttp://elsewhere.test", "https:/elsewhere.test",
        "http:elsewhere.test", R"(http:\\shop.svc:8080\\api)",
        R"(http://shop.svc:8080\@elsewhere.test/api)",
        R"(http://shop.svc:8080/api\\elsewhere.test)", "http://shop.svc:8080/api/\t/elsewhere.test",
        "http:", "//"}) {
    EXPECT_EQ(Of(0, location).kind, Kind::kRefuse) << location;
  }
}

TEST(RedirectTest, WhatComesBackByItselfPasses) {
  for (const char* const location : {"/v2", "v2", "?x=1", "", "urn:x", "mailto:a@b", "ftp://a/b",
                                     "/v2?next=http://a/b", R"(/v2\x?y=\\z)"}) {
    EXPECT_EQ(Of(0, location).kind, Kind::kPass) << location;
  }
  for (const int status : {201, 301, 302, 303}) {
    EXPECT_EQ(Of(0, "http://elsewhere.test/", status).kind, Kind::kPass) << status;
  }
}

}  // namespace
}  // namespace recourse::redirect_test
