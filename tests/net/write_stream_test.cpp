// Writes in virtual time: how long a backend is waited for, what its silence leaves open, and which
// connections carry another write.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "proxy/net/upstream/write_client.h"
#include "tests/support/scripted_streams.h"

namespace recourse::write_stream_test {
namespace {

using Said = StreamScript::Said;
using Then = StreamScript::Then;
using Sight = UpstreamStream::Sight;

constexpr Millis kTimeout{10'000};
constexpr std::size_t kAnswerBytes = 1'000;
const HttpRequest kOrder{"POST", "/orders", {{"Content-Type", "application/json"}}, "{}"};
const std::string kCreated = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
const std::string kGaveUp = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";

std::string Ok(const std::string& field) {
  return "HTTP/1.1 200 OK\r\n" + field + "Content-Length: 0\r\n\r\n";
}

class WriteStreamTest : public testing::Test {
 protected:
  WriteStreamTest() {
    shop_->authority = "shop";
    shop_->write_reuse = true;
    loop_.Turns([this] {
      const bool has_any = thread_.reactor().has_queued();
      if (has_any) thread_.reactor().RunReady();
      return has_any;
    });
  }
  ~WriteStreamTest() override { loop_.RunAll(); }

  Result<Answer> Ask(const HttpRequest& request = kOrder) {
    const auto call = upstream_.OpenForCall(shop_);
    const MonoTime began = loop_.now();
    auto got = loop_.Run(Exchange(*call, request, began + kTimeout));
    took_ = std::chrono::duration_cast<Millis>(loop_.now() - began);
    return got;
  }
  static Task<Result<Answer>> Exchange(UpstreamConnection& call, const HttpRequest& request,
                                       MonoTime deadline) {
    const auto connected = co_await call.Connected();
    if (!connected) co_return std::unexpected(connected.error());
    co_return co_await call.Exchange(request, deadline, kAnswerBytes);
  }
  // Of a write that got no answer.
  void ExpectLost(const Result<Answer>& got, ErrorCode code, Delivery delivery) {
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), code) << got.error().detail();
    EXPECT_EQ(got.error().delivery(), delivery) << got.error().detail();
    EXPECT_TRUE(backend_.kept.empty());
  }
  const std::string& Sent(std::size_t exchange) { return backend_.exchanges.at(exchange)->sent; }

  TestLoop loop_;
  IoThread thread_{loop_.clock()};
  ScriptedStreams backend_{loop_};
  WriteUpstream upstream_{thread_, backend_, "1.1 test"};
  const std::shared_ptr<Backend> shop_ = std::make_shared<Backend>();
  Millis took_{};
};

TEST_F(WriteStreamTest, AnAnswerIsReadInWhateverPiecesItComesBehindInterimOnes) {
  backend_.script = {{.says = {{Millis(10), "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 201 Cr"},
                               {Millis(20), "eated\r\nContent-Length: 2\r\n\r\n{"},
                               {Millis(30), "}"}}}};
  const auto got = Ask();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->response.status, 201);
  EXPECT_EQ(got->response.body, "{}");
  EXPECT_TRUE(got->body_complete);
  EXPECT_EQ(took_, Millis(60));
  EXPECT_EQ(Sent(0),
            "POST /orders HTTP/1.1\r\nHost: shop\r\nContent-Type: application/json\r\n"
            "Via: 1.1 test\r\nContent-Length: 2\r\n\r\n{}");
}

TEST_F(WriteStreamTest, ASilentBackendMayHaveActed) {
  backend_.script = {{}};
  ExpectLost(Ask(), ErrorCode::kBackendTimeout, Delivery::kUncertain);
  EXPECT_EQ(took_, kTimeout);
  EXPECT_TRUE(backend_.exchanges.front()->is_cut);
}

// A read gets its time again.
TEST_F(WriteStreamTest, WhoShowsThatItWorksHasNoMoreTime) {
  const Said working{Millis(4'000), "HTTP/1.1 102 Processing\r\n\r\n"};
  backend_.script = {{.says = {working, working, working, {{}, kCreated}}}};
  ExpectLost(Ask(), ErrorCode::kBackendTimeout, Delivery::kUncertain);
  EXPECT_EQ(took_, kTimeout);
}

TEST_F(WriteStreamTest, ABackendThatEndsWithoutAWordIsNotAskedAgain) {
  for (const Then then : {Then::kClosed, Then::kBroken}) {
    backend_.exchanges.clear();
    backend_.script = {{.then = then, .then_after = Millis(100)}};
    ExpectLost(Ask(), ErrorCode::kBackendReset, Delivery::kUncertain);
    EXPECT_EQ(took_, Millis(100));
    EXPECT_EQ(backend_.exchanges.size(), 1U);
  }
}

TEST_F(WriteStreamTest, InterimAnswersHaveABound) {
  std::string said;
  for (int i = 0; i <= limits::kInterimResponsesMax; ++i) said += "HTTP/1.1 103 Early\r\n\r\n";
  backend_.script = {{.says = {{{}, said + kCreated}}}};
  ExpectLost(Ask(), ErrorCode::kBackendProtocol, Delivery::kUncertain);
}

TEST_F(WriteStreamTest, WhatBreaksOffIsNoWholeAnswerAndWhatIsTooLargeNeither) {
  backend_.script = {
      {.says = {{{}, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}}, .then = Then::kClosed},
      {.says = {{{},
                 "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" +
                     std::string(kAnswerBytes + 1, 'x')}}}};
  const auto broken = Ask();
  ASSERT_TRUE(broken);
  EXPECT_FALSE(broken->body_complete);
  EXPECT_EQ(broken->response.body, "abc");
  const auto large = Ask();
  ASSERT_TRUE(large);
  EXPECT_TRUE(large->over_cap);
  EXPECT_TRUE(backend_.kept.empty());
}

TEST_F(WriteStreamTest, WhoCannotBeConnectedToWasSentNothing) {
  backend_.script = {{.refuses = Error(ErrorCode::kNotSent, "refused", Delivery::kNotSent)}};
  ExpectLost(Ask(), ErrorCode::kNotSent, Delivery::kNotSent);
  EXPECT_EQ(Sent(0), "");
}

TEST_F(WriteStreamTest, WhatHasEndedBeforeItWasAskedIsSentNothing) {
  backend_.script = {{.sight = Sight::kLeft}};
  ExpectLost(Ask(), ErrorCode::kBackendReset, Delivery::kNotSent);
  EXPECT_EQ(Sent(0), "");
}

TEST_F(WriteStreamTest, AKeptConnectionThatHasEndedMeanwhileIsReplaced) {
  for (const Sight sight : {Sight::kLeft, Sight::kBegun}) {
    backend_.exchanges.clear();
    backend_.script = {{.says = {{{}, kCreated}}}, {.sight = sight}, {.says = {{{}, kCreated}}}};
    ASSERT_TRUE(Ask());
    ASSERT_TRUE(Ask());
    ASSERT_EQ(backend_.exchanges.size(), 3U);
    EXPECT_TRUE(backend_.exchanges[1]->on_kept);
    EXPECT_EQ(Sent(1), "");
    EXPECT_FALSE(backend_.exchanges[2]->on_kept);
    EXPECT_EQ(Sent(2), Sent(0));
    backend_.script = {{.says = {{{}, Ok("Connection: close\r\n")}}}};
    ASSERT_TRUE(Ask());
  }
}

// RFC 9110 15.5.9.
TEST_F(WriteStreamTest, A408OnAKeptConnectionDoesNotSayThatTheRequestWasRead) {
  backend_.script = {{.says = {{{}, kGaveUp}}}, {.says = {{{}, kGaveUp}}}};
  const auto fresh = Ask();
  ASSERT_TRUE(fresh);
  EXPECT_EQ(fresh->response.status, 408);
  backend_.kept.clear();
  ExpectLost(Ask(), ErrorCode::kBackendReset, Delivery::kUncertain);
  EXPECT_TRUE(backend_.exchanges.back()->on_kept);
}

TEST_F(WriteStreamTest, WhatWasTakenNothingOfWasNotSentButOnAKeptConnection) {
  const StreamScript takes_nothing{.then = Then::kBroken, .then_after = Millis(100), .takes = 0};
  backend_.script = {takes_nothing};
  ExpectLost(Ask(), ErrorCode::kBackendReset, Delivery::kNotSent);
  backend_.script = {{.says = {{{}, kCreated}}}, takes_nothing};
  ASSERT_TRUE(Ask());
  backend_.kept.clear();
  ExpectLost(Ask(), ErrorCode::kBackendReset, Delivery::kUncertain);
}

TEST_F(WriteStreamTest, AnAnswerBeforeTheEndOfTheRequestCountsAndEndsTheConnection) {
  backend_.script = {
      {.says = {{Millis(100), "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"}},
       .takes = 100}};
  const auto got = Ask({"POST", "/orders", {}, std::string(2'000, 'x')});
  ASSERT_TRUE(got);
  EXPECT_EQ(got->response.status, 413);
  EXPECT_EQ(took_, Millis(100));
  EXPECT_EQ(Sent(0).size(), 100U);
  EXPECT_TRUE(backend_.exchanges.front()->is_cut);
  EXPECT_TRUE(backend_.kept.empty());
}

TEST_F(WriteStreamTest, AConnectionIsKeptOnlyAfterAWholeAnswerAndNoLongerThanTheBackendDoes) {
  backend_.script = {{.says = {{{}, Ok("Keep-Alive: timeout=1\r\n")}}},
                     {.says = {{{}, Ok("Connection: close\r\n")}}},
                     {.says = {{{}, Ok("") + "HTTP/1.1"}}},
                     {.says = {{{}, "HTTP/1.1 200 OK\r\n\r\nto the end"}}, .then = Then::kClosed},
                     {.says = {{{}, Ok("")}}}};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Ask());
  EXPECT_EQ(backend_.kept, std::vector{limits::kWriteReuseIdle});
  EXPECT_EQ(Sent(4).find("Connection:"), std::string::npos);
}

TEST_F(WriteStreamTest, WithoutLeaveOfThePolicyNoConnectionIsUsedTwice) {
  shop_->write_reuse = false;
  backend_.script = {{.says = {{{}, Ok("")}}}, {.says = {{{}, Ok("")}}}};
  EXPECT_TRUE(Ask());
  EXPECT_TRUE(Ask());
  EXPECT_TRUE(backend_.kept.empty());
  EXPECT_NE(Sent(1).find("\r\nConnection: close\r\n"), std::string::npos);
}

// Who looks for no body there takes it for the next request.
TEST_F(WriteStreamTest, NothingFollowsAGetWithABody) {
  backend_.script = {{.says = {{{}, Ok("")}}}};
  EXPECT_TRUE(Ask({"GET", "/search", {}, "{}"}));
  EXPECT_TRUE(backend_.kept.empty());
  EXPECT_NE(Sent(0).find("\r\nConnection: close\r\n"), std::string::npos);
}

}  // namespace
}  // namespace recourse::write_stream_test
