// The seam between lanes and what carries a request: a carrier that has many requests at work on
// one connection, as HTTP/2 does, serves them by the same lanes.
#include "proxy/exchange/exchange.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proxy/exchange/router.h"
#include "proxy/process/all_lanes.h"
#include "tests/policy/policy_builder.h"
#include "tests/support/seeded_random.h"

namespace recourse::exchange_test {
namespace {

class StillClock final : public Clock {
 public:
  MonoTime Now() const override { return MonoTime(std::chrono::hours(1)); }
  WallTime WallNow() const override { return {}; }
};

// What the connection has sent, in order: "3 head 200", "3 data abc", "3 end".
using Frames = std::vector<std::string>;

// A body that comes in pieces, whenever the test gives one.
class FakeBody final : public RequestBody {
 public:
  void Give(std::string data, bool ends) {
    given_.emplace_back(std::move(data), ends);
    if (waiter_ != nullptr) std::exchange(waiter_, nullptr)->Set(true);
  }

  void KeepHead() override {}  // nothing is read over it
  Piece Begin() override { return given_.empty() ? Piece{} : Next(); }
  void Skip() override {}
  Task<Piece> Read(MonoTime) override {
    if (given_.empty()) {
      Promise<bool> given;
      waiter_ = &given;
      co_await given.Wait();
    }
    co_return Next();
  }
  std::uint64_t announced() const override { return 0; }
  void Stop() override {}
  bool is_awaited() const override { return false; }
  Task<bool> Ask() override { co_return true; }
  std::span<char> FreeRoom() override { return {}; }
  BufferPool::Buffer Take() override { return {}; }
  void Drop() override {}

 private:
  Piece Next() {
    auto [data, ends] = std::move(given_.front());
    given_.pop_front();
    data_ = std::move(data);
    return {data_, ends ? BodyDecoder::End::kComplete : BodyDecoder::End::kMore};
  }

  std::deque<std::pair<std::string, bool>> given_;  // data, and whether it is the last
  std::string data_;
  Promise<bool>* waiter_ = nullptr;
};

// Framing is that of the carrier: lengths and chunks do not show.
class FakeReply final : public Reply {
 public:
  FakeReply(std::string stream, Frames& frames) : stream_(std::move(stream)), frames_(frames) {}

  Task<bool> Send(const HttpResponse& response, bool) override {
    Put("head " + std::to_string(response.status));
    Put("data " + response.body);
    Put("end");
    co_return true;
  }
  bool Begin(const PassedHead& head) override {
    keeps_ = true;
    head_ = "head " + std::to_string(head.head.status);
    return true;
  }
  bool Begin(const HttpResponse& head, std::optional<std::uint64_t>, bool) override {
    keeps_ = true;
    head_ = "head " + std::to_string(head.status);
    return true;
  }
  Task<bool> Send(const ReplyPiece& piece) override {
    if (!head_.empty()) Put(std::exchange(head_, {}));
    if (!piece.data.empty()) Put("data " + std::string(piece.data));
    if (piece.ends) Put("end");
    co_return true;
  }
  bool may_grow() const override { return true; }
  Task<Interim> SendInterim(const Head&, std::uint64_t, std::span<char>) override {
    co_return Interim::kSent;
  }
  void Cut() override {
    is_cut_ = true;
    Put("reset");
  }

 private:
  void Put(const std::string& what) { frames_.push_back(stream_ + " " + what); }

  const std::string stream_;
  Frames& frames_;
  std::string head_;
};

// A stream has no bytes of its own to give away.
class FakeClient final : public ClientSide {
 public:
  State Look() override { return State::kSilent; }
  Task<State> Await() override { co_return State::kSilent; }
  void StopAwaiting() override {}
  Task<bool> HasTaken() override { co_return true; }
  void MarkAnswered(AttemptId) override {}
  bool HasLeft() const override { return false; }
  bool MayHaveLeft() const override { return false; }
  Task<std::optional<RawConnection>> Upgrade(const Head&, std::uint64_t, std::string_view,
                                             std::span<char>) override {
    co_return std::nullopt;
  }
  Task<std::optional<RawConnection>> AcceptConnect() override { co_return std::nullopt; }
  std::optional<RawConnection> TakeOver() override { return std::nullopt; }
  void EnterTunnel(Authority) override {}
  void Drains(Drainable*) override {}
};

// One of the streams of a connection.
struct FakeStream {
  FakeStream(Worker& worker, const Ingress& ingress, const std::string& id, Frames& frames,
             std::string lines)
      : head(std::move(lines) + "\r\n"), request(worker, ingress), reply(id, frames) {
    EXPECT_EQ(ParseRequestHead(head, request.head).state, ParseState::kComplete);
  }

  Task<void> Serve(const Lanes& lanes) {
    request.Begin();
    kept = co_await ServeRequest(exchange, lanes);
    request.End();
  }

  const std::string head;
  ServedRequest request;
  FakeBody body;
  FakeReply reply;
  FakeClient client;
  Exchange exchange{request, body, reply, client};
  std::optional<bool> kept;  // set: it is answered
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
    services_.access_log = &log_;
    services_.metrics = &metrics_;
    services_.clock = &clock_;
    services_.random = &random_;
    services_.install_secret = std::string(32, 'x');
    services_.via = "1.1 recourse-test";
    const auto port = std::to_string(LocalEnd(listening_.fd())->port());
    worker_.emplace(services_, thread_,
                    LoadGood("unlisted: { reads: pass, writes: guard }\n"
                             "backends: { shop: { url: \"http://127.0.0.1:" +
                             port + "\", addresses: [ loopback ], hosts: [ shop ] } }"),
                    PolicyView::Earlier{});
    auto held = std::make_unique<HeldFilter>();
    held_ = held.get();
    worker_->chain.push_back(std::move(held));
  }

  std::unique_ptr<FakeStream> Open(const std::string& id, const std::string& lines) {
    return std::make_unique<FakeStream>(*worker_, ingress_, id, frames_, lines);
  }
  void Serve(FakeStream& stream) {
    Spawn(stream.Serve(lanes_), [] {});
  }
  void TurnUntil(const std::function<bool()>& holds) {
    while (!holds()) {
      thread_.reactor().Listen();
      thread_.reactor().GoOn();
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
  SeededRandom random_;
  IoThread thread_{clock_};
  Metrics metrics_{WallTime{}};
  AccessLog log_{"off"};
  Services services_{64 * 1024 * 1024};
  std::optional<Worker> worker_;
  HeldFilter* held_ = nullptr;
  AllLanes all_;
  const Lanes lanes_ = all_.lanes();
  const Ingress ingress_;
  Frames frames_;
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
  EXPECT_EQ(services_.write_flows, 2);
  EXPECT_TRUE(frames_.empty());

  held_->Release("/second");
  TurnUntil([&] { return second->kept.has_value(); });
  EXPECT_FALSE(first->kept);
  held_->Release("/first");
  TurnUntil([&] { return first->kept.has_value(); });
  EXPECT_EQ(frames_, (Frames{"3 head 201", "3 data two", "3 end", "1 head 201",
                             "1 data one and more", "1 end"}));
  EXPECT_TRUE(*first->kept && *second->kept);
  EXPECT_EQ(first->request.record.effect, "write");
  EXPECT_EQ(services_.write_flows, 0);
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
    TurnUntil([&] { return frames_.size() >= frames; });
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
  EXPECT_EQ(frames_, (Frames{"3 head 200", "3 data abc", "1 head 404", "1 data 12", "3 data def",
                             "3 end", "1 data 34", "1 end"}));
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
  EXPECT_EQ(frames_, (Frames{"3 head 200", "3 data ok", "3 end", "1 head 204", "1 end"}));
}

}  // namespace
}  // namespace recourse::exchange_test
