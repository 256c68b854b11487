#include "filters/call/stored_request.h"

#include <gtest/gtest.h>

#include <string>

namespace recourse::kept_request_test {
namespace {

HttpRequest Sent() {
  return {"POST",
          "/v1/charges?a=b",
          {{"Content-Type", "application/json"},
           {"Authorization", "Bearer a"},
           {"Cookie", "c"},
           {"X-Api-Key", "k"},
           {"Idempotency-Key", "i"}},
          "{\"amount\":1}"};
}

TEST(KeptRequestTest, CredentialsAreNotKeptUnlessThePolicyKeepsThem) {
  Tool tool;
  const auto bare = StoredRequest(tool, Sent());
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->method, "POST");
  EXPECT_EQ(bare->target, "/v1/charges?a=b");
  EXPECT_EQ(bare->body, "{\"amount\":1}");
  EXPECT_EQ(bare->headers,
            (Headers{{"Content-Type", "application/json"}, {"Idempotency-Key", "i"}}));
  tool.undo.emplace().from_call = {"authorization"};
  EXPECT_EQ(StoredRequest(tool, Sent())->headers, (Headers{{"Content-Type", "application/json"},
                                                           {"Authorization", "Bearer a"},
                                                           {"Idempotency-Key", "i"}}));
}

TEST(KeptRequestTest, ACallOfWhichSomethingIsRedactedIsNotKept) {
  for (const auto& [place, is_kept] :
       {std::pair("answer.body#/id", true), std::pair("answer.header.Location", true),
        std::pair("body#/card", false), std::pair("header.X-Pin", false),
        std::pair("query.pin", false)}) {
    Tool tool;
    tool.redact = {*ParseSelector(place)};
    EXPECT_EQ(StoredRequest(tool, Sent()).has_value(), is_kept) << place;
  }
}

// Rows hold it: a backend whose promise had another number would not be asked again.
TEST(KeptRequestTest, TheDomainOfABackendsPromiseStaysWhatItIs) {
  Backend backend;
  EXPECT_EQ(DedupeDomain(backend, backend.key), 0U);
  backend.scheme = "http";
  backend.authority = "orders.shop.svc:8080";
  backend.base_path = "/api";
  backend.key.at = {RequestPlace::Where::kHeader, "Idempotency-Key"};
  EXPECT_EQ(DedupeDomain(backend, backend.key), 0xe3229fc93e945becU);
  backend.authority = "files:3000";
  backend.protocol = Protocol::kMcp;
  backend.endpoint = "/mcp";
  backend.key.at = {RequestPlace::Where::kHeader, "X-Key"};
  EXPECT_EQ(DedupeDomain(backend, backend.key), 0x9e592c47d2f2ef84U);
}

}  // namespace
}  // namespace recourse::kept_request_test
