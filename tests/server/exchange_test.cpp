// The seam between lanes and what carries a request: a carrier that has many requests at work on
// one connection, as HTTP/2 does, serves them by the same lanes.
#include "proxy/exchange/exchange.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/policy/policy_builder.h"
#include "tests/support/fake_carrier.h"

namespace recourse::exchange_test {
namespace {

class StillClock final : public Clock {
 public:
  MonoTime Now() const override { return MonoTime(std::chrono::hours(1)); }
  WallTime WallNow() const override { return {}; }
};

// In place of the chain: answers with what it got, when the test says so.
class HeldFilter final : public Filter {
 public:
  std::string_view name() const override { return "held"; }
  Task<Result<Outcome>> Handle(RequestContext& context, Next) override {
    Promise<bool> released;
    waiting[context.path] = &released;
    co_await released.Wait();
    WriteAnswer answer;
    answer.response.status = 201;
    answer.response.body = context.request.body;
    co_return LocalOutcome(std::move(answer));
  }
  void Release(const std::string& path) { waiting.at(path)->Set(true); }

  std::map<std::string, Promise<bool>*> waiting;
};

class ExchangeTest : public testing::Test {
 protected:
  ExchangeTest() : listening_(Socket::ListeningAt({boost::asio::ip::address_v4::loopback(), 0})) {
    const auto port = std::to_string(LocalEnd(listening_.fd())->port());
    process_.emplace(clock_, LoadGood("unlisted: { reads: pass, writes: guard }\n"
                                      "backends: { shop: { url: \"http://127.0.0.1:" +
                                      port + "\", addresses: [ loopback ], hosts: [ shop ] } }"));
    auto held = std::make_unique<HeldFilter>();
    held_ = held.get();
    process_->worker->chain.push_back(std::move(held));
  }

  std::unique_ptr<FakeStream> Open(const std::string& id, const std::string& lines) {
    return process_->Open(id, lines);
  }
  void Serve(FakeStream& stream) { process_->Serve(stream); }
  void TurnUntil(const std::function<bool()>& holds) {
    while (!holds()) {
      process_->thread.reactor().Poll();
      process_->thread.reactor().RunReady();
    }
  }
  // The backend's end of the next connection, once its request has come.
  std::pair<std::string, Socket> AcceptAsked() {
    int fd = -1;
    TurnUntil([&] {
      fd = ::accept4(listening_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      return fd >= 0;
    });
    std::string asked;
    TurnUntil([&] {
      char room[4096];
      const ssize_t got = ::recv(fd, room, sizeof room, 0);
      if (got > 0) asked.append(room, static_cast<std::size_t>(got));
      return asked.ends_with("\r\n\r\n");
    });
    return {asked, Socket(fd)};
  }
  static void Say(const Socket& socket, std::string_view text) {
    ASSERT_EQ(::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  Socket listening_;
  StillClock clock_;
  std::optional<FakeProcess> process_;
  HeldFilter* held_ = nullptr;
};

TEST_F(ExchangeTest, WritesOfOneConnectionAreAnsweredInTheOrderOfTheirOutcomes) {
  const std::string head = "Host: shop\r\nTransfer-Encoding: chunked\r\n";
  const auto first = Open("1", "POST /first HTTP/1.1\r\n" + head);
  const auto second = Open("3", "POST /second HTTP/1.1\r\n" + head);
  Serve(*first);
  Serve(*second);
  first->body.Give("one ", false);
  second->body.Give("two", true);
  first->body.Give("and more", true);
  ASSERT_EQ(held_->waiting.size(), 2);
  EXPECT_EQ(process_->services.write_flows, 2);
  EXPECT_TRUE(process_->frames.empty());

  held_->Release("/second");
  TurnUntil([&] { return second->kept.has_value(); });
  EXPECT_FALSE(first->kept);
  held_->Release("/first");
  TurnUntil([&] { return first->kept.has_value(); });
  EXPECT_EQ(process_->frames, (Frames{"3 head 201", "3 data two", "3 end", "1 head 201",
                                      "1 data one and more", "1 end"}));
  EXPECT_TRUE(*first->kept && *second->kept);
  EXPECT_EQ(first->request.record.effect, "write");
  EXPECT_EQ(process_->services.write_flows, 0);
}

TEST_F(ExchangeTest, AnswersOfReadsPassEachOtherPieceByPiece) {
  const auto first = Open("1", "GET /first HTTP/1.1\r\nHost: shop\r\n");
  const auto second = Open("3", "GET /second HTTP/1.1\r\nHost: shop\r\n");
  first->body.Give("", true);
  second->body.Give("", true);
  Serve(*first);
  const auto [first_asked, first_backend] = AcceptAsked();
  Serve(*second);
  const auto [second_asked, second_backend] = AcceptAsked();
  EXPECT_TRUE(first_asked.starts_with("GET /first HTTP/1.1\r\n")) << first_asked;
  EXPECT_TRUE(second_asked.starts_with("GET /second HTTP/1.1\r\n")) << second_asked;

  const auto shows = [this](std::size_t frames) {
    TurnUntil([&] { return process_->frames.size() >= frames; });
  };
  Say(second_backend, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
  shows(2);
  Say(first_backend, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n12");
  shows(4);
  Say(second_backend, "def");
  shows(6);
  Say(first_backend, "34");
  shows(8);
  TurnUntil([&] { return first->kept && second->kept; });
  EXPECT_EQ(process_->frames, (Frames{"3 head 200", "3 data abc", "1 head 404", "1 data 12",
                                      "3 data def", "3 end", "1 data 34", "1 end"}));
}

// A read's body streams up while another request of the connection is answered.
TEST_F(ExchangeTest, AnUploadHoldsUpNobodyElse) {
  const auto upload = Open("1",
                           "OPTIONS /first HTTP/1.1\r\nHost: shop\r\nContent-Length: 6\r\n"
                           "Origin: http://a\r\nAccess-Control-Request-Method: GET\r\n");
  const auto other = Open("3", "GET /second HTTP/1.1\r\nHost: shop\r\n");
  other->body.Give("", true);
  Serve(*upload);
  const auto [asked, backend] = AcceptAsked();
  Serve(*other);
  const auto [other_asked, other_backend] = AcceptAsked();
  Say(other_backend, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
  TurnUntil([&] { return other->kept.has_value(); });
  EXPECT_FALSE(upload->kept);
  upload->body.Give("abc", false);
  upload->body.Give("def", true);
  std::string body;
  TurnUntil([&] {
    char room[64];
    const ssize_t got = ::recv(backend.fd(), room, sizeof room, 0);
    if (got > 0) body.append(room, static_cast<std::size_t>(got));
    return body.size() >= 6;
  });
  EXPECT_EQ(body, "abcdef");
  Say(backend, "HTTP/1.1 204 No Content\r\n\r\n");
  TurnUntil([&] { return upload->kept.has_value(); });
  EXPECT_EQ(process_->frames, (Frames{"3 head 200", "3 data ok", "3 end", "1 head 204", "1 end"}));
}

}  // namespace
}  // namespace recourse::exchange_test
