#include "proxy/exchange/head_judgement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "policy/language/fields_read.h"
#include "tests/policy/policy_builder.h"

namespace recourse::head_judgement_test {
namespace {

constexpr const char* kPolicy = R"(
backends:
  shop: { url: "http://shop", key_header: Shop-Key }
tools:
  pay:
    match: POST shop /pay
    effect: write
    identity: [ header.X-Pay-Id, header.X_Odd-One ]
    reason: r
flow_rules: { parent: [ header:X-Run-Id ] }
)";

TEST(FieldsReadTest, ATwinOfWhatThePolicyReadsIsNamed) {
  const auto policy = LoadGood(kPolicy);
  for (const char* name :
       {"Shop_Key", "x_pay_id", "X-Pay_Id", "X_RUN_ID", "X-Api_Key", "X_User_Id", "X_Tenant_Id"}) {
    EXPECT_NE(ReadTwin(*policy, name), "") << name;
  }
  EXPECT_EQ(ReadTwin(*policy, "X_Odd_One"), "x-odd-one");
  EXPECT_EQ(ReadTwin(*policy, "X.Pay.Id"), "x-pay-id");
  EXPECT_EQ(ReadTwin(*policy, "X~Api|Key"), "x-api-key");
  for (const char* name :
       {"Shop-Key", "X_Odd-One", "Odd_Marks", "X_Request_Source", "_", "a_b", "X.Mine"}) {
    EXPECT_EQ(ReadTwin(*policy, name), "") << name;
  }
}

TEST(FieldsReadTest, WhatTheHeadsReaderActsOnIsReadByUs) {
  const auto policy = LoadGood(kPolicy);
  for (const std::string name : {"proxy-connection",
                                 "keep-alive",
                                 "transfer-encoding",
                                 "content-length",
                                 "http2-settings",
                                 "proxy-authenticate",
                                 "proxy-authorization",
                                 "content-type",
                                 "content-encoding",
                                 "idempotency-key",
                                 "recourse-intent",
                                 "recourse-flow",
                                 "recourse-session",
                                 "x-http-method-override",
                                 "x-http-method",
                                 "x-method-override",
                                 "x-method",
                                 "x-original-url",
                                 "x-original-uri",
                                 "x-rewrite-url",
                                 "x-override-url",
                                 "script-name",
                                 "path-info",
                                 "x-script-name",
                                 "x-traversal-path",
                                 "x-forwarded-for",
                                 "x-forwarded-host",
                                 "x-real-ip",
                                 "set-cookie",
                                 "recourse-event",
                                 "idempotent-replayed",
                                 "max-forwards",
                                 "x-accel-redirect"}) {
    ASSERT_NE(FieldIdOf(name), FieldId::kOther) << name;
    for (const char sign : {'_', '.'}) {
      std::string twin = name;
      std::ranges::replace(twin, '-', sign);
      EXPECT_EQ(ReadTwin(*policy, twin), name);
    }
  }
}

std::string RefusalOf(const Policy& policy, const std::string& lines) {
  const std::string bytes = lines + "\r\nHost: shop\r\n\r\n";
  const auto head = std::make_unique<Head>();
  EXPECT_EQ(ParseRequestHead(bytes, *head).state, ParseState::kComplete);
  const auto question = std::min(head->path.find('?'), head->path.size());
  const std::string_view path = head->path.substr(0, question);
  const EndpointPlace place = policy.routes->Place("shop", 80, path);
  std::string scratch;
  RouteMatch match;
  const auto found = policy.routes->Match(*place.backend, head->method, path, scratch, match);
  const auto refusal =
      RefusalOfHead(policy, *head, place, head->path.substr(question), found, match);
  return refusal ? std::string(FactsOf(refusal->code()).slug) : "none";
}

TEST(HeadJudgementTest, TheFirstRefusalIsTold) {
  const auto policy = LoadGood(std::string("unlisted: { reads: pass, writes: deny }") + kPolicy);
  EXPECT_EQ(RefusalOf(*policy, "GET /a HTTP/1.1"), "none");
  EXPECT_EQ(RefusalOf(*policy, "GET /a%2Fb?c HTTP/1.1\r\nX_Mine: 1"), "none");
  EXPECT_EQ(RefusalOf(*policy, "POST /a HTTP/1.1"), "denied");
  EXPECT_EQ(RefusalOf(*policy, "POST /pay;x HTTP/1.1"), "denied");
  EXPECT_EQ(RefusalOf(*policy, "POST /pay HTTP/1.1\r\nShop_Key: 1"), "malformed-request");
  EXPECT_EQ(RefusalOf(*policy, "POST /a HTTP/1.1\r\nShop_Key: 1"), "malformed-request");
  EXPECT_EQ(RefusalOf(*policy, "GET /a?_method=POST HTTP/1.1"), "malformed-request");
  EXPECT_EQ(RefusalOf(*policy, "GET /a%00 HTTP/1.1"), "ambiguous-path");
  EXPECT_EQ(RefusalOf(*policy, "post /pay HTTP/1.1"), "malformed-request");
}

}  // namespace
}  // namespace recourse::head_judgement_test
