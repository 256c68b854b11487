// Which lane a request falls to: a function over its head, the policy and how it came.
#include "proxy/exchange/pick.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "filters/call/poll_token.h"
#include "tests/policy/policy_builder.h"

namespace recourse::pick_test {
namespace {

using To = Pick::To;

constexpr const char* kPolicy = R"(
backends:
  shop: { url: "http://shop" }
  bank: { url: "http://bank/mcp", protocol: mcp }
tools:
  pay: { match: POST shop /pay, effect: write, reason: r }
  ask: { match: POST shop /ask, effect: read }
)";

class PickTest : public ::testing::Test {
 protected:
  Pick Of(const std::string& lines) {
    bytes_ = lines + "\r\n\r\n";
    head_ = std::make_unique<Head>();
    EXPECT_EQ(ParseRequestHead(bytes_, *head_).state, ParseState::kComplete) << lines;
    route_ = Route();
    HostCache hosts(*policy_->routes);
    return PickLane({.head = *head_,
                     .ingress = ingress_,
                     .policy = *policy_,
                     .hosts = hosts,
                     .via = "1.1 recourse-1"},
                    route_);
  }
  // Of a request to the shop.
  Pick At(const std::string& line) { return Of(line + " HTTP/1.1\r\nHost: shop"); }
  static std::string Why(const Pick& pick) {
    return pick.to == To::kRefuse ? std::string(FactsOf(pick.code).slug) : "none";
  }
  void Observe() { policy_ = LoadGood(std::string("mode: observe\n") + kPolicy); }

  std::shared_ptr<const Policy> policy_ = LoadGood(kPolicy);
  Ingress ingress_;
  std::string bytes_;
  std::unique_ptr<Head> head_;
  Route route_;
};

TEST_F(PickTest, ToolsAndMethodsSayWhatACallIs) {
  const Pick pay = At("POST /pay");
  EXPECT_EQ(pay.to, To::kWrite);
  ASSERT_NE(pay.tool, nullptr);
  EXPECT_EQ(pay.tool->name, "pay");
  EXPECT_TRUE(route_.is_guarded);
  EXPECT_FALSE(pay.is_unlisted);
  EXPECT_TRUE(pay.names_caller);

  const Pick ask = At("POST /ask");
  EXPECT_EQ(ask.to, To::kRead);
  EXPECT_EQ(ask.tool->name, "ask");

  const Pick list = At("GET /items?page=2");
  EXPECT_EQ(list.to, To::kRead);
  EXPECT_EQ(list.tool, nullptr);
  EXPECT_TRUE(list.is_unlisted);
  EXPECT_EQ(list.backend->name, "shop");
  EXPECT_EQ(route_.path, "/items");
  EXPECT_EQ(route_.query, "?page=2");

  EXPECT_EQ(At("POST /other").to, To::kWrite);
}

TEST_F(PickTest, AnEndpointsBodySaysWhatACallIs) {
  const Pick call = Of("POST /mcp HTTP/1.1\r\nHost: bank");
  EXPECT_EQ(call.to, To::kEndpoint);
  EXPECT_EQ(call.backend->name, "bank");
  EXPECT_EQ(Why(Of("POST /mcp/ HTTP/1.1\r\nHost: bank")), "ambiguous-path");
}

TEST_F(PickTest, AMessageAboutAFlowIsAWriteWhateverCarriesIt) {
  const Pick order = Of("GET /items HTTP/1.1\r\nHost: shop\r\nRecourse-Flow: close");
  EXPECT_EQ(order.to, To::kWrite);
  EXPECT_TRUE(route_.is_guarded);
  EXPECT_FALSE(order.is_unlisted);
}

TEST_F(PickTest, QuestionsAboutAWriteAreAnsweredHere) {
  const Pick options = At("OPTIONS /pay");
  EXPECT_EQ(options.to, To::kRead) << "a preflight, which no tool names";
  EXPECT_EQ(At("OPTIONS *").to, To::kOptions);
  const Pick last = Of("OPTIONS /items HTTP/1.1\r\nHost: shop\r\nMax-Forwards: 0");
  EXPECT_EQ(last.to, To::kOptions);
  EXPECT_NE(last.allow.find("DELETE"), std::string::npos);
  EXPECT_EQ(Of("OPTIONS /items HTTP/1.1\r\nHost: shop\r\nMax-Forwards: 3").to, To::kRead);
  EXPECT_EQ(route_.forwards_left, 2);
  EXPECT_EQ(Why(Of("OPTIONS /items HTTP/1.1\r\nHost: shop\r\nMax-Forwards: x")),
            "malformed-request");
}

TEST_F(PickTest, WhatNobodyMayAskEndsBeforeAnybodyIsNamed) {
  const Pick trace = At("TRACE /items");
  EXPECT_EQ(Why(trace), "method-not-allowed");
  EXPECT_TRUE(trace.lingers);
  EXPECT_FALSE(trace.names_caller);
  const Pick loop = Of("GET /items HTTP/1.1\r\nHost: shop\r\nVia: 1.1 recourse-1");
  EXPECT_EQ(Why(loop), "loop");
  EXPECT_FALSE(loop.names_caller);
  EXPECT_EQ(Of("CONNECT shop:443 HTTP/1.1\r\nHost: shop:443").to, To::kConnect);
}

TEST_F(PickTest, AnAbsoluteTargetsAuthorityWinsOverHost) {
  const Pick pick = Of("GET http://shop/items HTTP/1.1\r\nHost: elsewhere");
  EXPECT_EQ(pick.to, To::kRead);
  EXPECT_TRUE(pick.host_differs);
  EXPECT_EQ(Why(Of("GET /items HTTP/1.1\r\nHost: elsewhere")), "unknown-backend");
}

TEST_F(PickTest, OneLooksForWhatBecameOfACallInEnforceModeOnly) {
  const std::string line = "GET " + std::string(kPollPath) + "x";
  EXPECT_EQ(At(line).to, To::kPoll);
  Observe();
  EXPECT_EQ(At(line).to, To::kObserve);
  EXPECT_TRUE(route_.is_observed);
}

TEST_F(PickTest, WhoWasRedirectedIsForTheAddressThatWasAskedFor) {
  ingress_.original = Tcp::endpoint(boost::asio::ip::make_address("192.0.2.7"), 80);
  const Pick pick = Of("GET /items HTTP/1.1\r\nHost: elsewhere");
  EXPECT_EQ(pick.to, To::kRedirected);
  EXPECT_NE(pick.detail.find("elsewhere"), std::string::npos) << pick.detail;
}

TEST_F(PickTest, WhatWasInterceptedUnderAnotherPolicyGoesNoFurther) {
  ingress_.is_intercepted = ingress_.is_secure = true;
  const Pick pick = Of("GET /items HTTP/1.1\r\nHost: shop");
  EXPECT_EQ(Why(pick), "misdirected");
  EXPECT_TRUE(pick.lingers);
  EXPECT_TRUE(pick.ends_connection);
}

}  // namespace
}  // namespace recourse::pick_test
