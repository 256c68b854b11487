#include "proxy/net/upstream/upstream_pool.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse::upstream_pool_test {
namespace {

using For = UpstreamStreams::For;

class UpstreamPoolTest : public testing::Test {
 protected:
  UpstreamPoolTest() : thread_(clock_), pool_(thread_, own_) { backend_.name = "shop"; }

  // A connection to a backend, whose end of it is `theirs`.
  std::unique_ptr<Connection> Connect(Socket& theirs) {
    const Socket listening = Socket::ListeningAt({boost::asio::ip::address_v4::loopback(), 0});
    const auto at = LocalEnd(listening.fd());
    Socket ours(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(ours.fd(), at->data(), static_cast<socklen_t>(at->size())), 0);
    theirs = Socket(::accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    auto connection =
        std::make_unique<Connection>(std::move(ours), thread_.reactor(), thread_.wheel());
    Turn();
    return connection;
  }
  std::unique_ptr<Connection> Closed() {
    return std::make_unique<Connection>(Socket(-1), thread_.reactor(), thread_.wheel());
  }
  void Turn() {
    thread_.reactor().Poll();
    thread_.reactor().RunReady();
  }
  // An exchange that is opened now, on that connection.
  std::unique_ptr<UpstreamStream> On(std::unique_ptr<Connection> connection, For use = For::kRead) {
    const auto opened = pool_.Open(backend_, {.use = use, .is_kept = true}, clock_.Now());
    return std::make_unique<SocketStream>(
        thread_, own_, static_cast<const SocketStream&>(*opened).origin(), std::move(connection));
  }
  // It has ended.
  void Give(std::unique_ptr<UpstreamStream> stream, Millis idle = Millis(60'000)) {
    pool_.Give(std::move(stream), idle, clock_.Now());
  }
  void Give(std::unique_ptr<Connection> connection, For use = For::kRead) {
    Give(On(std::move(connection), use));
  }
  // The connection of the next exchange, where it was kept; else null. It is held till the end.
  Connection* Take(const Backend& backend, For use = For::kRead) {
    auto stream = pool_.Open(backend, {.use = use, .takes_kept = true}, clock_.Now());
    if (!stream->is_reused()) return nullptr;
    taken_.push_back(std::move(stream));
    return taken_.back()->raw();
  }
  Connection* Take() { return Take(backend_); }
  static void Say(const Socket& socket, std::string_view text) {
    ASSERT_EQ(::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  const SystemClock clock_;
  IoThread thread_;
  const OwnListeners own_;
  UpstreamPool pool_;
  Backend backend_;
  std::vector<std::unique_ptr<UpstreamStream>> taken_;
  Socket theirs_{-1};
};

TEST_F(UpstreamPoolTest, WhatIsQuietIsUsedAgain) {
  auto connection = Connect(theirs_);
  const Connection* const same = connection.get();
  Give(std::move(connection));
  EXPECT_EQ(Take(), same);
  EXPECT_EQ(pool_.size(), 0U);
}

TEST_F(UpstreamPoolTest, AnotherBackendIsGivenNone) {
  Backend other = backend_;
  Give(Connect(theirs_));
  EXPECT_EQ(Take(other), nullptr);
  EXPECT_NE(Take(), nullptr);
}

TEST_F(UpstreamPoolTest, BytesThatCameBeforeItCameBackEndItsUse) {
  auto connection = Connect(theirs_);
  Say(theirs_, "unasked");
  Give(std::move(connection));
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(UpstreamPoolTest, BytesThatCameBeforeTheNextRequestEndItsUse) {
  Give(Connect(theirs_));
  Turn();
  Say(theirs_, "unasked");
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(UpstreamPoolTest, AnEndOfTheBackendsSideEndsItsUse) {
  Give(Connect(theirs_));
  ::shutdown(theirs_.fd(), SHUT_WR);
  Turn();
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(UpstreamPoolTest, OneThatIsClosedIsNotUsed) {
  auto connection = Connect(theirs_);
  connection->Close();
  Give(std::move(connection));
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(UpstreamPoolTest, OneTakeLooksAtABoundedNumber) {
  auto good = Connect(theirs_);
  const Connection* const same = good.get();
  Give(std::move(good));
  for (std::size_t i = 0; i < limits::kIdleLooksMax; ++i) Give(Closed());
  EXPECT_EQ(Take(), nullptr);
  EXPECT_EQ(Take(), same);
}

TEST_F(UpstreamPoolTest, OneSweepClosesABoundedNumber) {
  for (std::size_t i = 0; i < limits::kIdleUpstreamClosedAtOnceMax + 7; ++i) {
    Give(On(Closed()), Millis(0));
  }
  EXPECT_TRUE(pool_.Sweep());
  EXPECT_EQ(pool_.size(), 7U);
  EXPECT_FALSE(pool_.Sweep());
}

TEST_F(UpstreamPoolTest, NoMoreAreKeptThanClientsMayConnect) {
  for (std::size_t i = 0; i < limits::kIdleUpstreamMax + 7; ++i) Give(Closed());
  EXPECT_EQ(pool_.size(), limits::kIdleUpstreamMax);
}

TEST_F(UpstreamPoolTest, WhatIsClearedIsClosedInSteps) {
  EXPECT_FALSE(pool_.Clear());
  Give(Connect(theirs_));  // the first one is closed last
  for (std::size_t i = 0; i < limits::kIdleUpstreamClosedAtOnceMax; ++i) Give(Closed());
  EXPECT_TRUE(pool_.Clear());
  EXPECT_EQ(Take(), nullptr);
  char byte;
  EXPECT_EQ(::recv(theirs_.fd(), &byte, 1, MSG_DONTWAIT), -1) << "still open";
  EXPECT_FALSE(pool_.Sweep());
  EXPECT_EQ(::recv(theirs_.fd(), &byte, 1, MSG_DONTWAIT), 0);
}

// What a read left may have been idle for longer than a write may count on.
TEST_F(UpstreamPoolTest, ReadsAndWritesDoNotShareWhatWasKept) {
  Give(Connect(theirs_));
  EXPECT_EQ(Take(backend_, For::kWrite), nullptr);
  EXPECT_NE(Take(backend_, For::kRead), nullptr);
  Give(Connect(theirs_), For::kWrite);
  EXPECT_EQ(Take(backend_, For::kRead), nullptr);
  EXPECT_NE(Take(backend_, For::kWrite), nullptr);
}

// It was opened under what is in force no more.
TEST_F(UpstreamPoolTest, WhatWasInUseAsAllWereClearedIsNotKept) {
  for (const For use : {For::kRead, For::kWrite}) {
    auto stream = On(Connect(theirs_), use);
    (void)pool_.Clear();
    Give(std::move(stream));
    EXPECT_EQ(Take(backend_, use), nullptr);
    EXPECT_EQ(pool_.size(), 0U);
  }
}

TEST_F(UpstreamPoolTest, WhatMayNotBeKeptIsNot) {
  Give(std::make_unique<SocketStream>(thread_, own_, SocketStream::Origin{&backend_, nullptr, {}},
                                      Connect(theirs_)));
  EXPECT_EQ(Take(), nullptr);
}

}  // namespace
}  // namespace recourse::upstream_pool_test
