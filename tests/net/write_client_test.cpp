// What a write does with the connection that the one before it left, on a loop that the test turns
// by hand.
#include "proxy/net/upstream/write_client.h"

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/net/upstream/upstream_pool.h"

namespace recourse::write_upstream_test {
namespace {

constexpr std::string_view kCreated = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";

// Stands still, or a kept connection would end by itself on a busy machine.
class StillClock final : public Clock {
 public:
  MonoTime Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  MonoTime now{std::chrono::hours(1)};
};

class WriteUpstreamTest : public testing::Test {
 protected:
  WriteUpstreamTest()
      : listening_(Socket::ListeningAt({boost::asio::ip::address_v4::loopback(), 0})),
        pool_(thread_, own_),
        upstream_(thread_, pool_, "1.1 test") {
    auto backend = std::make_shared<Backend>();
    backend->name = "shop";
    backend->scheme = "http";
    backend->host = "127.0.0.1";
    backend->authority = "127.0.0.1";
    backend->port = LocalEnd(listening_.fd())->port();
    backend->connect_timeout = Millis(600'000);
    backend->write_reuse = true;
    backend->addresses.classes = {AddressClass::kLoopback};
    backend_ = std::move(backend);
  }

  using Got = std::optional<Result<Answer>>;
  static Task<void> Exchange(UpstreamConnection& call, MonoTime deadline, Got& got) {
    const HttpRequest request{"POST", "/orders", {}, "{}"};
    const auto connected = co_await call.Connected();
    EXPECT_TRUE(connected);
    got = co_await call.Exchange(request, deadline, 1'000);
  }
  // Turns the loop until `holds`.
  void TurnUntil(const std::function<bool()>& holds) {
    while (!holds()) {
      thread_.reactor().Poll();
      thread_.reactor().RunReady();
    }
  }
  // The backend's end of the next connection, once there is one.
  Socket Accept() {
    int fd = -1;
    TurnUntil([&] {
      fd = ::accept4(listening_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      return fd >= 0;
    });
    return Socket(fd);
  }
  // Returns when it has arrived.
  static void SayUnasked(const Socket& socket) {
    ASSERT_EQ(::send(socket.fd(), "?", 1, 0), 1);
    int left = 1;
    while (left > 0) ASSERT_EQ(::ioctl(socket.fd(), SIOCOUTQ, &left), 0);
  }
  // What the proxy has sent, up to its end or until it says nothing.
  static std::string Received(const Socket& socket) {
    char room[4096];
    const ssize_t got = ::recv(socket.fd(), room, sizeof room, 0);
    return {room, got > 0 ? static_cast<std::size_t>(got) : 0};
  }

  // A call that has taken the connection of the one before it, on which the backend speaks while
  // the ledger commits.
  std::unique_ptr<UpstreamConnection> OpenOnOneThatEnds() {
    Got first;
    auto call = upstream_.OpenForCall(backend_);
    Spawn(Exchange(*call, clock_.Now() + Millis(600'000), first), [] {});
    const Socket theirs = Accept();
    std::string asked;
    TurnUntil([&] { return (asked += Received(theirs)).ends_with("{}"); });
    EXPECT_EQ(::send(theirs.fd(), kCreated.data(), kCreated.size(), 0), std::ssize(kCreated));
    TurnUntil([&] { return first.has_value(); });
    EXPECT_TRUE(*first);
    call = upstream_.OpenForCall(backend_);
    EXPECT_TRUE(call->IsReused());
    SayUnasked(theirs);
    return call;
  }
  // From now on whoever connects waits.
  void FillBacklog() {
    ASSERT_EQ(::listen(listening_.fd(), 0), 0);
    const auto at = LocalEnd(listening_.fd());
    for (int i = 0; i < 8; ++i) {
      waiting_.push_back(Socket::For(at->protocol()));
      (void)::connect(waiting_.back().fd(), at->data(), static_cast<socklen_t>(at->size()));
    }
  }

  StillClock clock_;
  IoThread thread_{clock_};
  const OwnListeners own_;
  const Socket listening_;
  std::shared_ptr<const Backend> backend_;
  UpstreamPool pool_;
  WriteUpstream upstream_;
  std::vector<Socket> waiting_;
};

TEST_F(WriteUpstreamTest, WhatCouldNotBeSentInTimeAsItsConnectionHadToBeReplacedIsNotSent) {
  const auto call = OpenOnOneThatEnds();
  Got second;
  Spawn(Exchange(*call, clock_.Now() + Millis(1'000), second), [] {});
  const Socket theirs = Accept();
  clock_.now += Millis(1'000);
  TurnUntil([&] { return second.has_value(); });
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().delivery(), Delivery::kNotSent);
  EXPECT_EQ(Received(theirs), "");
}

TEST_F(WriteUpstreamTest, TheConnectionThatReplacesAnotherIsWaitedForNoLongerThanTheRequest) {
  const auto call = OpenOnOneThatEnds();
  FillBacklog();
  Got second;
  Spawn(Exchange(*call, clock_.Now() + Millis(1'000), second), [] {});
  const auto turn = [&] {
    for (int i = 0; i < 100; ++i) {
      thread_.reactor().Poll();
      thread_.reactor().RunReady();
    }
  };
  turn();
  ASSERT_FALSE(second) << "it was connected";
  clock_.now += Millis(1'000) + 2 * DeadlineWheel::kTick;
  thread_.wheel().Advance(clock_.Now());
  turn();
  ASSERT_TRUE(second) << "it waits for connect_timeout";
  ASSERT_FALSE(*second);
  EXPECT_EQ(second->error().delivery(), Delivery::kNotSent);
}

class ScriptedPermit final : public SendPermit {
 public:
  explicit ScriptedPermit(int given) : given_(given) {}
  bool Enter() override {
    EXPECT_FALSE(is_inside_);
    is_inside_ = given_ > 0;
    if (is_inside_) --given_;
    return is_inside_;
  }
  void Leave() override { is_inside_ = false; }
  Millis Left() override { return left; }
  bool is_inside() const { return is_inside_; }

  Millis left{4'000};

 private:
  int given_;
  bool is_inside_ = false;
};

TEST_F(WriteUpstreamTest, NoByteGoesWithoutThePermit) {
  for (const bool is_kept : {false, true}) {
    Got got;
    std::optional<Socket> theirs;
    const auto call = is_kept ? OpenOnOneThatEnds() : upstream_.OpenForCall(backend_);
    ScriptedPermit permit(0);
    call->SendOnlyWith(&permit);
    Spawn(Exchange(*call, clock_.Now() + Millis(600'000), got), [] {});
    theirs.emplace(Accept());
    TurnUntil([&] { return got.has_value(); });
    ASSERT_FALSE(*got);
    EXPECT_EQ(got->error().code(), ErrorCode::kLedgerUnavailable);
    EXPECT_EQ(got->error().delivery(), Delivery::kNotSent);
    EXPECT_EQ(Received(*theirs), "");
    EXPECT_FALSE(permit.is_inside());
  }
}

TEST_F(WriteUpstreamTest, APermitIsHeldOnlyWhileBytesGo) {
  ScriptedPermit permit(1);
  Got got;
  const auto call = upstream_.OpenForCall(backend_);
  call->SendOnlyWith(&permit);
  Spawn(Exchange(*call, clock_.Now() + Millis(600'000), got), [] {});
  const Socket theirs = Accept();
  std::string asked;
  TurnUntil([&] { return (asked += Received(theirs)).ends_with("{}"); });
  EXPECT_FALSE(permit.is_inside());
  EXPECT_EQ(::send(theirs.fd(), kCreated.data(), kCreated.size(), 0), std::ssize(kCreated));
  TurnUntil([&] { return got.has_value(); });
  EXPECT_TRUE(*got);
}

TEST_F(WriteUpstreamTest, ABodyThatThePermitCutsShortIsUnknown) {
  ScriptedPermit permit(1);
  Got got;
  const auto call = upstream_.OpenForCall(backend_);
  call->SendOnlyWith(&permit);
  const HttpRequest upload{"POST", "/orders", {}, std::string(8 * 1024 * 1024, 'x')};
  const auto send = [&](UpstreamConnection& connection) -> Task<void> {
    EXPECT_TRUE(co_await connection.Connected());
    got = co_await connection.Exchange(upload, clock_.Now() + Millis(600'000), 1'000);
  };
  Spawn(send(*call), [] {});
  const Socket theirs = Accept();
  std::size_t received = 0;
  TurnUntil([&] {
    received += Received(theirs).size();
    return got.has_value();
  });
  ASSERT_FALSE(*got);
  EXPECT_EQ(got->error().code(), ErrorCode::kBackendReset);
  EXPECT_EQ(got->error().delivery(), Delivery::kUncertain);
  EXPECT_LT(received, upload.body.size());
}

// Who asks for files gets them from another thread, where this one had none to close.
TEST_F(WriteUpstreamTest, OnlyAConnectionThatWasKeptIsOneThatWasClosed) {
  EXPECT_FALSE(pool_.Clear());
  const auto call = OpenOnOneThatEnds();  // which took the only one
  EXPECT_FALSE(pool_.Clear());
}

}  // namespace
}  // namespace recourse::write_upstream_test
