// What becomes of a write's bytes that its backend has not acknowledged, over real sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "proxy/base/lease_limits.h"
#include "proxy/net/upstream/upstream_pool.h"
#include "proxy/net/upstream/write_client.h"

namespace recourse::given_up_write_test {
namespace {

constexpr std::string_view kCreated = "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}";
constexpr std::string_view kTooLarge =
    "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
constexpr Millis kTimeout{30'000};

// Goes on by hand.
class HandClock final : public Clock {
 public:
  MonoTime Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  MonoTime now{std::chrono::hours(1)};
};

class ReadPermit final : public SendPermit {
 public:
  bool Enter() override { return lets; }
  void Leave() override {}
  Millis Left() override {
    ++asked;
    return left;
  }
  Millis left{4'000};
  bool lets = true;
  int asked = 0;  // how much is left
};

// The pool, whose sockets the test sees.
class SeenStreams final : public UpstreamStreams {
 public:
  explicit SeenStreams(UpstreamPool& pool) : pool_(pool) {}
  std::unique_ptr<UpstreamStream> Open(const Backend& backend, Terms terms, MonoTime now,
                                       std::shared_ptr<const Backend> held) override {
    auto stream = pool_.Open(backend, terms, now, std::move(held));
    last = stream.get();
    return stream;
  }
  void Give(std::unique_ptr<UpstreamStream> stream, Millis idle, MonoTime now) override {
    pool_.Give(std::move(stream), idle, now);
  }
  int socket() const { return last->raw()->socket(); }

 private:
  UpstreamPool& pool_;
  UpstreamStream* last = nullptr;
};

class GivenUpWriteTest : public testing::Test {
 protected:
  GivenUpWriteTest() {
    backend_->name = "shop";
    backend_->scheme = "http";
    backend_->host = backend_->authority = "127.0.0.1";
    backend_->port = LocalEnd(listening_.fd())->port();
    backend_->connect_timeout = Millis(600'000);
    backend_->addresses.classes = {AddressClass::kLoopback};
  }

  void TearDown() override {
    if (got_) return;
    GoOn(2 * kTimeout);
    EXPECT_TRUE(got_.has_value());
  }

  static Task<void> Exchange(UpstreamConnection& call, const HttpRequest& request,
                             MonoTime deadline, std::optional<Result<Answer>>& got) {
    EXPECT_TRUE(co_await call.Connected());
    got = co_await call.Exchange(request, deadline, 1'000);
  }
  void TurnUntil(const std::function<bool()>& holds) {
    while (!holds()) {
      thread_.reactor().Poll();
      thread_.reactor().RunReady();
    }
  }
  void GoOn(Millis time) {
    clock_.now += time;
    thread_.wheel().Advance(clock_.now);
    for (int i = 0; i < 10; ++i) {
      thread_.reactor().Poll();
      thread_.reactor().RunReady();
    }
  }
  void Start(std::string body, SendPermit* permit) {
    request_.body = std::move(body);
    call_ = upstream_.OpenForCall(backend_);
    call_->SendOnlyWith(permit);
    Spawn(Exchange(*call_, request_, clock_.now + kTimeout, got_), [] {});
  }
  // Sends `body`; gives the backend's end, which has read nothing.
  Socket Begin(std::string body, SendPermit* permit = nullptr) {
    Start(std::move(body), permit);
    int fd = -1;
    TurnUntil([&] {
      fd = ::accept4(listening_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      return fd >= 0;
    });
    Socket theirs(fd);
    TurnUntil([&] { return Waiting(theirs) > 0; });
    return theirs;
  }
  static int Waiting(const Socket& theirs) {
    int bytes = 0;
    EXPECT_EQ(::ioctl(theirs.fd(), SIOCINQ, &bytes), 0);
    return bytes;
  }
  // More than two kernels take.
  static std::string Upload() { return std::string(8 * 1024 * 1024, 'x'); }
  // Reads to the end; gives the error that it ends with, 0: politely.
  static int EndOf(const Socket& theirs, std::size_t& received) {
    char room[64 * 1024];
    for (;;) {
      const ssize_t got = ::recv(theirs.fd(), room, sizeof room, 0);
      if (got > 0) {
        received += static_cast<std::size_t>(got);
      } else if (got == 0) {
        return 0;
      } else if (errno != EAGAIN) {
        return errno;
      }
    }
  }
  int Bound() const {
    int bound_ms = 0;
    socklen_t size = sizeof bound_ms;
    EXPECT_EQ(::getsockopt(streams_.socket(), IPPROTO_TCP, TCP_USER_TIMEOUT, &bound_ms, &size), 0);
    return bound_ms;
  }

  HandClock clock_;
  ReadPermit permit_;
  IoThread thread_{clock_};
  const OwnListeners own_;
  const Socket listening_ = Socket::ListeningAt({boost::asio::ip::address_v4::loopback(), 0});
  const std::shared_ptr<Backend> backend_ = std::make_shared<Backend>();
  UpstreamPool pool_{thread_, own_};
  SeenStreams streams_{pool_};
  WriteUpstream upstream_{thread_, streams_, "1.1 test"};
  HttpRequest request_{"POST", "/orders", {}, {}};
  std::optional<Result<Answer>> got_;
  std::unique_ptr<UpstreamConnection> call_;
};

TEST_F(GivenUpWriteTest, WhatIsNotAcknowledgedAtItsDeadlineIsDropped) {
  const Socket theirs = Begin(Upload());
  const auto arrived = static_cast<std::size_t>(Waiting(theirs));
  GoOn(kTimeout + DeadlineWheel::kTick);
  ASSERT_TRUE(got_ && !*got_);
  EXPECT_EQ(got_->error().delivery(), Delivery::kUncertain);
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), ECONNRESET);
  EXPECT_LE(received, arrived) << "the kernel sent more, though the call was given up";
}

TEST_F(GivenUpWriteTest, WhatHasArrivedIsNotReset) {
  const Socket theirs = Begin("{}");
  GoOn(kTimeout + DeadlineWheel::kTick);
  ASSERT_TRUE(got_ && !*got_);
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), 0);
  EXPECT_GT(received, 0U);
}

TEST_F(GivenUpWriteTest, AWholeAnswerEndsPolitely) {
  const Socket theirs = Begin("{}");
  ASSERT_EQ(::send(theirs.fd(), kCreated.data(), kCreated.size(), 0), std::ssize(kCreated));
  TurnUntil([&] { return got_.has_value(); });
  ASSERT_TRUE(*got_);
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), 0);
}

TEST_F(GivenUpWriteTest, AfterAnEarlyAnswerTheRestIsDropped) {
  const Socket theirs = Begin(Upload());
  ASSERT_EQ(::send(theirs.fd(), kTooLarge.data(), kTooLarge.size(), 0), std::ssize(kTooLarge));
  TurnUntil([&] { return got_.has_value(); });
  ASSERT_TRUE(*got_);
  EXPECT_EQ((*got_)->response.status, 413);
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), ECONNRESET);
}

TEST_F(GivenUpWriteTest, AConnectionThatIsKeptEndsPolitely) {
  backend_->write_reuse = true;
  const Socket theirs = Begin("{}");
  ASSERT_EQ(::send(theirs.fd(), kCreated.data(), kCreated.size(), 0), std::ssize(kCreated));
  TurnUntil([&] { return got_.has_value(); });
  ASSERT_TRUE(*got_);
  EXPECT_TRUE(pool_.Clear());
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), 0);
}

TEST_F(GivenUpWriteTest, TheKernelSendsForNoLongerThanTheCallWaits) {
  const Socket theirs = Begin("{}");
  EXPECT_EQ(Bound(), kTimeout.count());
}

TEST_F(GivenUpWriteTest, UnderAPermitTheKernelSendsForNoLongerThanThatLasts) {
  const Socket theirs = Begin(Upload(), &permit_);
  EXPECT_EQ(Bound(), 4'000);
  // As long as it is renewed, however long the backend reads nothing.
  constexpr Millis kLook = limits::kUnacknowledgedLook + DeadlineWheel::kTick;
  for (int i = 0; i < 10; ++i) GoOn(kLook);
  EXPECT_GE(Bound(), 4'000 + 9 * limits::kUnacknowledgedLook.count());
  EXPECT_LE(Bound(), 4'000 + 10 * kLook.count());
  permit_.left = Millis(1'000);
  GoOn(kLook);
  const int last = Bound();
  EXPECT_LE(last, 1'000 + 11 * kLook.count());
  permit_.left = Millis(0);
  for (int i = 0; i < 3; ++i) GoOn(kLook);
  EXPECT_EQ(Bound(), last) << "nobody has confirmed that it may go on";
}

TEST_F(GivenUpWriteTest, WhatHasArrivedIsLookedAtNoMore) {
  const Socket theirs = Begin("{}", &permit_);
  GoOn(limits::kUnacknowledgedLook + DeadlineWheel::kTick);
  permit_.left = Millis(9'000);
  GoOn(limits::kUnacknowledgedLook + DeadlineWheel::kTick);
  EXPECT_EQ(Bound(), 4'000);
}

// Its permit may be gone by then.
TEST_F(GivenUpWriteTest, WhatWasNotLetGoIsLookedAtNoMore) {
  permit_.lets = false;
  Start("{}", &permit_);
  TurnUntil([&] { return got_.has_value(); });
  EXPECT_FALSE(*got_);
  const int asked = permit_.asked;
  GoOn(limits::kUnacknowledgedLook + DeadlineWheel::kTick);
  EXPECT_EQ(permit_.asked, asked);
}

TEST_F(GivenUpWriteTest, WhatIsNotAcknowledgedWhenTheProcessHandsOverIsDropped) {
  const Socket theirs = Begin(Upload(), &permit_);
  const auto arrived = static_cast<std::size_t>(Waiting(theirs));
  upstream_.DropSent();
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), ECONNRESET);
  EXPECT_LE(received, arrived);
  TurnUntil([&] { return got_.has_value(); });
}

TEST_F(GivenUpWriteTest, WhatIsNotAcknowledgedWhenTheProcessIsKilledIsDropped) {
  const Socket theirs = Begin(Upload());
  const auto arrived = static_cast<std::size_t>(Waiting(theirs));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  // Only the child has it now, and what was said about its end.
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::dup2(nothing, streams_.socket()), streams_.socket());
  ::close(nothing);
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  std::size_t received = 0;
  EXPECT_EQ(EndOf(theirs, received), ECONNRESET);
  EXPECT_LE(received, arrived);
  GoOn(kTimeout + DeadlineWheel::kTick);
  EXPECT_TRUE(got_.has_value());
}

}  // namespace
}  // namespace recourse::given_up_write_test
