#include "proxy/net/upstream/connection_pool.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string_view>
#include <utility>

#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse::connection_pool_test {
namespace {

class ConnectionPoolTest : public testing::Test {
 protected:
  ConnectionPoolTest() : thread_(clock_), pool_(thread_) { backend_.name = "shop"; }

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
    thread_.reactor().Listen();
    thread_.reactor().GoOn();
  }
  void Give(std::unique_ptr<Connection> connection) {
    pool_.Give(backend_, std::move(connection), Millis(60'000), clock_.Now());
  }
  std::unique_ptr<Connection> Take() { return pool_.Take(backend_, clock_.Now()); }
  static void Say(const Socket& socket, std::string_view text) {
    ASSERT_EQ(::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  const SystemClock clock_;
  IoThread thread_;
  ConnectionPool pool_;
  Backend backend_;
  Socket theirs_{-1};
};

TEST_F(ConnectionPoolTest, WhatIsQuietIsUsedAgain) {
  auto connection = Connect(theirs_);
  const Connection* const same = connection.get();
  Give(std::move(connection));
  connection = Take();
  EXPECT_EQ(connection.get(), same);
  Give(std::move(connection));
  Turn();
  EXPECT_EQ(Take().get(), same);
  EXPECT_EQ(pool_.size(), 0U);
}

TEST_F(ConnectionPoolTest, AnotherBackendIsGivenNone) {
  Backend other = backend_;
  Give(Connect(theirs_));
  EXPECT_EQ(pool_.Take(other, clock_.Now()), nullptr);
  EXPECT_NE(Take(), nullptr);
}

TEST_F(ConnectionPoolTest, BytesThatCameBeforeItCameBackEndItsUse) {
  auto connection = Connect(theirs_);
  Say(theirs_, "unasked");
  Give(std::move(connection));
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(ConnectionPoolTest, BytesThatCameBeforeTheNextRequestEndItsUse) {
  Give(Connect(theirs_));
  Turn();
  Say(theirs_, "unasked");
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(ConnectionPoolTest, AnEndOfTheBackendsSideEndsItsUse) {
  Give(Connect(theirs_));
  ::shutdown(theirs_.fd(), SHUT_WR);
  Turn();
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(ConnectionPoolTest, OneThatIsClosedIsNotUsed) {
  auto connection = Connect(theirs_);
  connection->Close();
  Give(std::move(connection));
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(ConnectionPoolTest, OneTakeLooksAtABoundedNumber) {
  auto good = Connect(theirs_);
  const Connection* const same = good.get();
  Give(std::move(good));
  for (std::size_t i = 0; i < limits::kIdleLooksMax; ++i) Give(Closed());
  EXPECT_EQ(Take(), nullptr);
  EXPECT_EQ(Take().get(), same);
}

TEST_F(ConnectionPoolTest, OneSweepClosesABoundedNumber) {
  for (std::size_t i = 0; i < limits::kIdleUpstreamClosedAtOnceMax + 7; ++i) {
    pool_.Give(backend_, Closed(), Millis(0), clock_.Now());
  }
  EXPECT_TRUE(pool_.Sweep());
  EXPECT_EQ(pool_.size(), 7U);
  EXPECT_FALSE(pool_.Sweep());
}

TEST_F(ConnectionPoolTest, NoMoreAreKeptThanClientsMayConnect) {
  for (std::size_t i = 0; i < limits::kIdleUpstreamMax + 7; ++i) Give(Closed());
  EXPECT_EQ(pool_.size(), limits::kIdleUpstreamMax);
}

TEST_F(ConnectionPoolTest, WhatIsClearedIsClosedInSteps) {
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

}  // namespace
}  // namespace recourse::connection_pool_test
