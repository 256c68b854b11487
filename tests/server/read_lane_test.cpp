// Reads in virtual time: how long a backend and a client are waited for, what is sent again, and
// what is kept.
#include "proxy/lanes/read_lane.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/policy/policy_builder.h"
#include "tests/support/fake_carrier.h"
#include "tests/support/scripted_streams.h"

namespace recourse::read_lane_test {
namespace {

using Said = StreamScript::Said;
using Then = StreamScript::Then;
using State = ClientSide::State;

constexpr const char* kPolicy = R"(
unlisted: { reads: pass, writes: guard }
backends: { shop: { url: "http://shop:80", hosts: [ shop ] } }
tools:
  slow: { match: GET shop /slow, effect: read, timeout: 120s }
  search: { match: POST shop /search, effect: read }
)";
const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class ReadLaneTest : public testing::Test {
 protected:
  ReadLaneTest() : process_(loop_.clock(), LoadGood(kPolicy)), backend_(loop_) {
    process_.worker->streams = &backend_;
    loop_.Turns([this] {
      Reactor& reactor = process_.thread.reactor();
      const bool has_any = reactor.has_queued();
      if (has_any) reactor.RunReady();
      return has_any;
    });
  }
  ~ReadLaneTest() override { loop_.RunAll(); }

  std::unique_ptr<FakeStream> Ask(const std::string& lines, const std::string& body = "",
                                  bool is_whole = true) {
    auto stream = process_.Open(
        "1", lines + " HTTP/1.1\r\nHost: shop\r\n" + (lines.starts_with("GET") ? "" : kChunked));
    if (is_whole || !body.empty()) stream->body.Give(body, is_whole);
    began_ = loop_.now();
    process_.Serve(*stream);
    return stream;
  }
  // A GET until its answer is over.
  std::unique_ptr<FakeStream> Get(const std::string& path = "/a") {
    auto stream = Ask("GET " + path);
    loop_.RunAll();
    return stream;
  }
  Millis Took(const FakeStream& stream) const {
    EXPECT_TRUE(stream.kept.has_value()) << "it goes on";
    return std::chrono::duration_cast<Millis>(stream.ended - began_);
  }
  std::string First() const { return process_.frames.empty() ? "" : process_.frames.front(); }

  static constexpr const char* kChunked = "Transfer-Encoding: chunked\r\n";
  TestLoop loop_;
  FakeProcess process_;
  ScriptedStreams backend_;
  MonoTime began_{};
};

TEST_F(ReadLaneTest, PiecesOfAnAnswerPassAsTheyCome) {
  backend_.script = {{.says = {{Millis(10), kOk.substr(0, kOk.size() - 1)}, {Millis(500), "k"}}}};
  const auto read = Ask("GET /a");
  loop_.RunFor(Millis(20));
  EXPECT_EQ(process_.frames, (Frames{"1 head 200", "1 data o"}));
  loop_.RunFor(Millis(600));
  EXPECT_EQ(process_.frames, (Frames{"1 head 200", "1 data o", "1 data k", "1 end"}));
  EXPECT_EQ(Took(*read), Millis(510));
  EXPECT_TRUE(backend_.exchanges.front()->sent.starts_with("GET /a HTTP/1.1\r\nHost: shop\r\n"));
}

TEST_F(ReadLaneTest, ASilentBackendIsWaitedForAsLongAsThePolicySays) {
  backend_.script = {{}, {}};
  EXPECT_EQ(Took(*Get("/a")), limits::kReadFirstByteTimeout);
  EXPECT_EQ(First(), "1 head 504");
  EXPECT_EQ(Took(*Get("/slow")), Millis(120'000));
  EXPECT_EQ(backend_.exchanges.size(), 2U) << "neither is sent again";
}

TEST_F(ReadLaneTest, WhoShowsThatItWorksOnTheAnswerGetsItsTimeAgain) {
  const Said working{Millis(25'000), "HTTP/1.1 102 Processing\r\n\r\n"};
  backend_.script = {{.says = {working, working, working, {Millis(25'000), kOk}}}};
  EXPECT_EQ(Took(*Get()), Millis(100'000));
  EXPECT_EQ(First(), "1 head 200");
}

TEST_F(ReadLaneTest, AKeptConnectionThatEndsWithoutAWordIsReplacedOnce) {
  backend_.script = {{.says = {{Millis(1), kOk}}}, {.then = Then::kClosed}, {.says = {{{}, kOk}}}};
  const auto first = Get();
  process_.frames.clear();
  const auto second = Get();
  EXPECT_EQ(First(), "1 head 200");
  EXPECT_EQ(second->request.record.attempts, 2);
  ASSERT_EQ(backend_.exchanges.size(), 3U);
  EXPECT_TRUE(backend_.exchanges[1]->on_kept);
  EXPECT_FALSE(backend_.exchanges[2]->on_kept);
  EXPECT_EQ(backend_.exchanges[1]->sent, backend_.exchanges[2]->sent);
}

// A backend that went away has closed all that was kept.
TEST_F(ReadLaneTest, TheSecondAttemptTakesNoKeptConnection) {
  backend_.script = {{.says = {{Millis(10), kOk}}},
                     {.says = {{Millis(10), kOk}}},
                     {.then = Then::kClosed},
                     {.says = {{{}, kOk}}}};
  const auto one = Ask("GET /a"), other = Ask("GET /b");
  loop_.RunAll();
  const auto third = Get();
  EXPECT_EQ(third->request.record.attempts, 2);
  ASSERT_EQ(backend_.exchanges.size(), 4U);
  EXPECT_TRUE(backend_.exchanges[2]->on_kept);
  EXPECT_FALSE(backend_.exchanges[3]->on_kept);
}

TEST_F(ReadLaneTest, ABackendThatEndsTwiceWithoutAWordIsAskedNoMore) {
  backend_.script = {{.then = Then::kBroken, .then_after = Millis(100)},
                     {.then = Then::kClosed, .then_after = Millis(100)}};
  EXPECT_EQ(Took(*Get()), Millis(200));
  EXPECT_EQ(First(), "1 head 502");
  EXPECT_EQ(backend_.exchanges.size(), 2U);
}

TEST_F(ReadLaneTest, WhatHasBegunToAnswerIsNotAskedAgain) {
  backend_.script = {{.says = {{{}, "HTTP/1.1 2"}}, .then = Then::kClosed}};
  (void)Get();
  EXPECT_EQ(First(), "1 head 502");
  EXPECT_EQ(backend_.exchanges.size(), 1U);
}

// RFC 9110 15.5.9.
TEST_F(ReadLaneTest, A408AboutSilenceAnswersNothing) {
  const std::string gave_up =
      "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  backend_.script = {{.says = {{{}, kOk}}}, {.says = {{{}, gave_up}}}, {.says = {{{}, gave_up}}}};
  (void)Get();
  process_.frames.clear();
  (void)Get();
  EXPECT_EQ(First(), "1 head 408") << "of the one that was opened for it";
  EXPECT_EQ(backend_.exchanges.size(), 3U);
}

TEST_F(ReadLaneTest, WhoCannotBeConnectedToIsToldSo) {
  backend_.script = {{.refuses = Error(ErrorCode::kNotSent, "refused", Delivery::kNotSent)}};
  EXPECT_EQ(Took(*Get()), Millis(0));
  EXPECT_EQ(First(), "1 head 503");
  EXPECT_EQ(backend_.exchanges.front()->sent, "");
}

TEST_F(ReadLaneTest, AClientThatHasLeftEndsTheReadAndIsNotAskedForAgain) {
  backend_.script = {{}};
  const auto read = Ask("GET /slow");
  loop_.RunFor(Millis(5'000));
  read->client.Become(State::kReset);
  loop_.RunAll();
  EXPECT_EQ(Took(*read), Millis(5'000));
  EXPECT_TRUE(read->request.record.client_gone);
  EXPECT_EQ(backend_.exchanges.size(), 1U);
}

// It may be gone, or wait for its answer.
TEST_F(ReadLaneTest, AClientThatSendsNoMoreIsWaitedForLessLong) {
  backend_.script = {{}};
  const auto read = Ask("GET /slow");
  loop_.RunFor(Millis(5'000));
  read->client.Become(State::kClosed);
  loop_.RunAll();
  EXPECT_EQ(Took(*read), Millis(5'000) + limits::kReadFirstByteTimeout);
}

TEST_F(ReadLaneTest, ABodyStreamsOnWhileItsAnswerIsAwaited) {
  backend_.script = {{.says = {{Millis(1'000), kOk}}}};
  const auto read = Ask("POST /search", "one", /*is_whole=*/false);
  loop_.RunFor(Millis(100));
  EXPECT_TRUE(backend_.exchanges.front()->sent.ends_with("\r\n\r\n3\r\none\r\n"));
  read->body.Give("two", true);
  loop_.RunAll();
  EXPECT_TRUE(backend_.exchanges.front()->sent.ends_with("3\r\ntwo\r\n0\r\n\r\n"));
  EXPECT_EQ(First(), "1 head 200");
  EXPECT_TRUE(*read->kept);
  EXPECT_EQ(backend_.kept.size(), 1U);
}

// What of it has gone on is not there any more.
TEST_F(ReadLaneTest, ABodyThatStreamedOnIsNotSentAgain) {
  backend_.script = {{.says = {{{}, kOk}}}, {.then = Then::kClosed, .then_after = Millis(100)}};
  (void)Get();
  process_.frames.clear();
  const auto read = Ask("POST /search", "one", /*is_whole=*/false);
  loop_.RunFor(Millis(200));
  read->body.Give("two", true);
  loop_.RunAll();
  EXPECT_EQ(First(), "1 head 502");
  EXPECT_EQ(read->request.record.attempts, 1);
  EXPECT_EQ(backend_.exchanges.size(), 2U);
}

TEST_F(ReadLaneTest, ABackendThatTakesNoMoreOfABodyIsWaitedForNoLongerThanForItsAnswer) {
  backend_.script = {{.takes = 1'000}};
  const auto read = Ask("POST /search", std::string(2'000, 'x'));
  loop_.RunAll();
  EXPECT_EQ(Took(*read), 2 * limits::kReadFirstByteTimeout);
  EXPECT_EQ(First(), "1 head 504");
  EXPECT_EQ(backend_.exchanges.size(), 1U);
}

TEST_F(ReadLaneTest, AnAnswerBeforeTheEndOfTheBodyEndsBothConnections) {
  backend_.script = {
      {.says = {{Millis(100), "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n"}}}};
  const auto read = Ask("POST /search", "one", /*is_whole=*/false);
  loop_.RunAll();
  EXPECT_EQ(First(), "1 head 413");
  EXPECT_EQ(Took(*read), Millis(100));
  EXPECT_TRUE(backend_.exchanges.front()->is_cut);
  EXPECT_FALSE(*read->kept);
  EXPECT_TRUE(backend_.kept.empty());
}

TEST_F(ReadLaneTest, AnAnswerThatFallsSilentIsCut) {
  backend_.script = {{.says = {{{}, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"}}}};
  const auto read = Get();
  EXPECT_EQ(Took(*read), process_.services.bounds.stream_timeout);
  EXPECT_EQ(process_.frames, (Frames{"1 head 200", "1 data abc", "1 reset"}));
  EXPECT_FALSE(*read->kept);
}

TEST_F(ReadLaneTest, AConnectionIsKeptOnlyAfterAWholeAnswerAndNoLongerThanTheBackendDoes) {
  const auto ok = [](const std::string& field) {
    return "HTTP/1.1 200 OK\r\n" + field + "Content-Length: 0\r\n\r\n";
  };
  backend_.script = {{.says = {{{}, ok("Keep-Alive: timeout=5\r\n")}}},
                     {.says = {{{}, ok("Connection: close\r\n")}}},
                     {.says = {{{}, ok("") + "HTTP/1.1"}}},
                     {.says = {{{}, "HTTP/1.1 200 OK\r\n\r\nto the end"}}, .then = Then::kClosed},
                     {.says = {{{}, ok("")}}}};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Get()->kept.has_value());
  EXPECT_EQ(backend_.kept, (std::vector<Millis>{Millis(4'000), limits::kUpstreamIdleTimeout}));
}

}  // namespace
}  // namespace recourse::read_lane_test
