// Operations of connections over real sockets, on a loop that the test turns by hand.
#include "proxy/net/loop/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "proxy/base/limits.h"
#include "proxy/base/random.h"
#include "proxy/net/message/body_decoder.h"
#include "proxy/net/tls/leaf_issuer.h"
#include "proxy/net/tls/tls_server.h"

namespace recourse::connection_test {
namespace {

const MonoTime kStart{std::chrono::hours(1)};

class ConnectionTest : public testing::Test {
 protected:
  struct Pair {
    std::unique_ptr<Connection> ours;
    Socket theirs;
  };
  Pair Connect() {
    const Socket listening = Socket::ListeningAt({boost::asio::ip::address_v4::loopback(), 0});
    const auto at = LocalEnd(listening.fd());
    Socket theirs(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(theirs.fd(), at->data(), static_cast<socklen_t>(at->size())), 0);
    Socket ours(::accept4(listening.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    EXPECT_TRUE(ours.is_open());
    return {std::make_unique<Connection>(std::move(ours), reactor_, wheel_), std::move(theirs)};
  }
  static void Say(const Socket& socket, std::string_view text, int flags = 0) {
    EXPECT_EQ(::send(socket.fd(), text.data(), text.size(), flags | MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void Turn(int times = 1) {
    for (int i = 0; i < times; ++i) {
      reactor_.Poll();
      reactor_.RunReady();
    }
  }
  // Reads once, and notes what came.
  struct Got {
    std::string text;
    IoError error;
    bool is_done = false;
  };
  static Task<void> Read(Connection& connection, Got& got, std::size_t capacity = 100) {
    std::string room(capacity, '\0');
    const std::size_t size = co_await ReadSome(connection, room.data(), room.size());
    got = {room.substr(0, size), size > 0 ? IoError() : connection.error, true};
  }
  static Task<void> AwaitReadable(Connection& connection, std::optional<bool>& is_readable) {
    is_readable = co_await WaitReadable(connection);
  }
  static Task<void> Write(Connection& connection, const std::string& text,
                          std::optional<bool>& is_sent) {
    is_sent = co_await WriteAll(connection, {text});
  }
  // Both ends speak TLS from now on; gives theirs.
  static SslPtr Secure(const Pair& pair) {
    const SystemClock clock;
    SystemRandom random;
    LeafIssuer minter(clock, random);
    const std::string key = PodCa::NewKey();
    const CaWish ca{
        .name = "pod", .hosts = {}, .now = clock.WallNow(), .life = std::chrono::hours(24)};
    minter.Use(*PodCa::Read(*PodCa::NewCertificatePem(key, ca, random), key));
    pair.ours->tls = TlsServer::NewStream(*minter.For("a.example"), pair.ours->socket());
    ::fcntl(pair.theirs.fd(), F_SETFL, O_NONBLOCK);
    SendAtOnce(pair.theirs.fd());
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
    SslPtr client(SSL_new(context.get()));
    SSL_set_fd(client.get(), pair.theirs.fd());
    bool is_done = false;
    for (int i = 0; i < 1'000 && !is_done; ++i) {
      is_done = SSL_connect(client.get()) == 1;
      is_done = pair.ours->tls->Handshake().want == TlsWant::kNothing && is_done;
    }
    EXPECT_TRUE(is_done);
    return client;
  }
  static void Start(Task<void> task) {
    Spawn(std::move(task), [] {});
  }

  Reactor reactor_;
  DeadlineWheel wheel_{kStart};
  Got got_;
};

TEST_F(ConnectionTest, AReadWaitsForBytesThatWereNotThere) {
  const Pair pair = Connect();
  Start(Read(*pair.ours, got_));
  Turn(3);
  EXPECT_FALSE(got_.is_done);
  Say(pair.theirs, "hello");
  Turn();
  EXPECT_EQ(got_.text, "hello");
}

TEST_F(ConnectionTest, WhatARoomWasTooSmallForIsReadNext) {
  const Pair pair = Connect();
  Say(pair.theirs, "hello");
  for (const char* part : {"he", "ll", "o"}) {
    got_ = {};
    Start(Read(*pair.ours, got_, 2));
    Turn(2);
    EXPECT_EQ(got_.text, part);
  }
}

TEST_F(ConnectionTest, AnEndThatCameWithTheLastBytesIsSeen) {
  const Pair pair = Connect();
  Say(pair.theirs, "bye");
  ::shutdown(pair.theirs.fd(), SHUT_WR);
  Turn();
  for (const char* part : {"bye", "", ""}) {
    got_ = {};
    Start(Read(*pair.ours, got_));
    Turn(2);
    ASSERT_TRUE(got_.is_done);
    EXPECT_EQ(got_.text, part);
  }
  EXPECT_EQ(got_.error, boost::asio::error::eof);
}

TEST_F(ConnectionTest, AnEndThatComesAfterTheBytesWereReadIsSeen) {
  const Pair pair = Connect();
  Say(pair.theirs, "bye");
  Start(Read(*pair.ours, got_));
  Turn(2);
  got_ = {};
  Start(Read(*pair.ours, got_));
  Turn(2);
  EXPECT_FALSE(got_.is_done);
  ::shutdown(pair.theirs.fd(), SHUT_WR);
  Turn(2);
  EXPECT_EQ(got_.error, boost::asio::error::eof);
}

TEST_F(ConnectionTest, BytesBehindUrgentDataAreRead) {
  const Pair pair = Connect();
  Say(pair.theirs, "one");
  Say(pair.theirs, "!", MSG_OOB);
  Say(pair.theirs, "two");
  Turn();
  std::string all;
  for (int i = 0; i < 2; ++i) {
    got_ = {};
    Start(Read(*pair.ours, got_));
    Turn(2);
    ASSERT_TRUE(got_.is_done);
    all += got_.text;
  }
  EXPECT_EQ(all, "onetwo");
}

TEST_F(ConnectionTest, WhoHasMoreToReadLetsOthersHaveTheirTurn) {
  const Pair busy = Connect(), calm = Connect();
  Say(busy.theirs, std::string(10, 'x'));
  Say(calm.theirs, "y");
  std::vector<char> order;
  const auto read_all = [](Connection& connection, std::vector<char>& noted) -> Task<void> {
    char byte = 0;
    while (co_await ReadSome(connection, &byte, 1) > 0) noted.push_back(byte);
  };
  Start(read_all(*busy.ours, order));
  Start(read_all(*calm.ours, order));
  Turn(4);
  EXPECT_LT(std::find(order.begin(), order.end(), 'y') - order.begin(), 3);
  EXPECT_LE(order.size(), 5U);
  busy.ours->Close();
  calm.ours->Close();
  Turn();
}

TEST_F(ConnectionTest, WhatIsCanceledWhileItWaitsEnds) {
  const Pair pair = Connect();
  Start(Read(*pair.ours, got_));
  Turn();
  pair.ours->Cancel();
  EXPECT_FALSE(got_.is_done);  // never inside of the call
  Turn();
  EXPECT_EQ(got_.error, boost::asio::error::operation_aborted);
  got_ = {};
  Start(Read(*pair.ours, got_));
  Say(pair.theirs, "more");
  Turn();
  EXPECT_EQ(got_.text, "more");
}

TEST_F(ConnectionTest, WhatIsCanceledBeforeItsTurnDoesNotWait) {
  const Pair pair = Connect();
  Say(pair.theirs, "x");
  std::optional<bool> is_readable;
  Start(AwaitReadable(*pair.ours, is_readable));
  Turn();
  EXPECT_EQ(is_readable, true);
  char byte = 0;
  ASSERT_EQ(::recv(pair.ours->socket(), &byte, 1, 0), 1);  // so that it believes in more
  Start(Read(*pair.ours, got_));
  is_readable.reset();
  pair.ours->Cancel();
  Turn();
  EXPECT_EQ(got_.error, boost::asio::error::operation_aborted);
}

TEST_F(ConnectionTest, WaitingToBeReadableLooksAndDoesNotBelieve) {
  const Pair pair = Connect();
  Say(pair.theirs, "x");
  Turn();
  char byte = 0;
  ASSERT_EQ(::recv(pair.ours->socket(), &byte, 1, 0), 1);
  std::optional<bool> is_readable;
  Start(AwaitReadable(*pair.ours, is_readable));
  Turn(3);
  EXPECT_FALSE(is_readable.has_value());
  ::shutdown(pair.theirs.fd(), SHUT_WR);
  Turn();
  EXPECT_EQ(is_readable, true);
}

TEST_F(ConnectionTest, ADeadlineEndsWhatWaitsAndWhatComesAfterIt) {
  const Pair pair = Connect();
  pair.ours->deadline.Arm(kStart + Millis(100));
  Start(Read(*pair.ours, got_));
  Turn();
  wheel_.Advance(kStart + Millis(200));
  Turn();
  EXPECT_EQ(got_.error, boost::asio::error::operation_aborted);
  Say(pair.theirs, "late");
  got_ = {};
  Start(Read(*pair.ours, got_));
  EXPECT_EQ(got_.error, boost::asio::error::operation_aborted);
}

// Somebody may arm it anew before the turn of what it has woken comes.
TEST_F(ConnectionTest, WhatADeadlineHasWokenWaitsOnWhenThereIsANewOne) {
  const Pair pair = Connect();
  pair.ours->deadline.Arm(kStart + Millis(100));
  Start(Read(*pair.ours, got_));
  Turn();
  wheel_.Advance(kStart + Millis(200));
  pair.ours->deadline.Arm(kStart + Millis(10'000));
  Turn(2);
  EXPECT_FALSE(got_.is_done);
  Say(pair.theirs, "in time");
  Turn();
  EXPECT_EQ(got_.text, "in time");
}

TEST_F(ConnectionTest, AWriteThatIsTooLargeForTheKernelGoesOnWhenItIsRead) {
  const Pair pair = Connect();
  const std::string text(16 << 20, 'x');
  std::optional<bool> is_sent;
  Start(Write(*pair.ours, text, is_sent));
  Turn(3);
  EXPECT_FALSE(is_sent.has_value());
  std::string room(1 << 20, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::recv(pair.theirs.fd(), room.data(), room.size(), MSG_DONTWAIT);
    if (got > 0) size += static_cast<std::size_t>(got);
    Turn();
  }
  EXPECT_EQ(is_sent, true);
}

TEST_F(ConnectionTest, ClosingEndsBothWaysOfWhatWaits) {
  const Pair pair = Connect();
  std::optional<bool> is_sent;
  const std::string text(16 << 20, 'x');
  Start(Write(*pair.ours, text, is_sent));
  Start(Read(*pair.ours, got_));
  Turn(2);
  EXPECT_FALSE(got_.is_done || is_sent.has_value());
  pair.ours->Close();
  Turn();
  EXPECT_EQ(got_.error, boost::asio::error::operation_aborted);
  EXPECT_EQ(is_sent, false);
}

TEST_F(ConnectionTest, APeerThatIsGoneEndsBothWays) {
  Pair pair = Connect();
  std::optional<bool> is_sent;
  const std::string text(16 << 20, 'x');
  Start(Write(*pair.ours, text, is_sent));
  Start(Read(*pair.ours, got_));
  Turn(2);
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(pair.theirs.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(pair.theirs.Release());
  Turn(3);
  EXPECT_TRUE(got_.is_done);
  EXPECT_TRUE(got_.error);
  EXPECT_EQ(is_sent, false);
}

// The kernel gives a number out again at once. What it had told of the one before is nobody's.
TEST_F(ConnectionTest, AnEventOfWhatWasClosedInTheSameTurnReachesNobody) {
  struct Closer final : PendingOp {
    explicit Closer(std::function<void()> of) : PendingOp(&Closer::Run), close(std::move(of)) {}
    static void Run(PendingOp& self) { static_cast<Closer&>(self).close(); }
    std::function<void()> close;
  };
  Pair victim = Connect();
  std::vector<Pair> fresh;
  const int number = victim.ours->socket();
  Closer closer([&] {
    victim.ours.reset();
    while (fresh.empty() || fresh.back().ours->socket() < number) fresh.push_back(Connect());
  });
  Say(victim.theirs, "for nobody");
  reactor_.Queue(closer);
  Turn();
  Turn();
  for (const Pair& pair : fresh) EXPECT_FALSE(pair.ours->descriptor.may_read());
}

// To look takes the bytes out of the kernel, which then has nothing to tell.
TEST_F(ConnectionTest, WhoWaitsForWhatALookIntoTlsHasFoundIsTold) {
  const Pair pair = Connect();
  const SslPtr client = Secure(pair);
  Start(Read(*pair.ours, got_));
  Turn(3);
  ASSERT_FALSE(got_.is_done);
  ASSERT_EQ(SSL_write(client.get(), "hello", 5), 5);
  EXPECT_EQ(pair.ours->PeekTls().size, 1U);
  Turn();
  EXPECT_EQ(got_.text, "hello");
}

TEST_F(ConnectionTest, APartOfARecordShowsBeforeItsData) {
  const Pair pair = Connect();
  const SslPtr client = Secure(pair);
  TlsStream& ours = *pair.ours->tls;
  EXPECT_EQ(ours.Peek().want, TlsWant::kRead);
  EXPECT_FALSE(ours.HasPart());
  BIO* const record = BIO_new(BIO_s_mem());
  SSL_set0_wbio(client.get(), record);
  ASSERT_EQ(SSL_write(client.get(), "hello", 5), 5);
  char* bytes = nullptr;
  const auto size = static_cast<std::size_t>(BIO_get_mem_data(record, &bytes));
  for (std::size_t i = 0; i + 1 < size; ++i) {
    Say(pair.theirs, {bytes + i, 1});
    EXPECT_EQ(ours.Peek().want, TlsWant::kRead);
    EXPECT_TRUE(ours.HasPart()) << i + 1 << " of " << size;
  }
  Say(pair.theirs, {bytes + size - 1, 1});
  EXPECT_EQ(ours.Peek().size, 1U);
}

TEST_F(ConnectionTest, ABufferHasMemoryOnlyWhileItHasBytes) {
  const Pair pair = Connect();
  const SystemClock clock;
  PeriodicTasks upkeep(wheel_, clock);
  BufferPool pool(upkeep);
  ReadBuffer buffer;
  buffer.pool = &pool;
  std::size_t size = 0;
  const auto read_into = [](Connection& connection, ReadBuffer& into,
                            std::size_t& count) -> Task<void> {
    count = co_await ReadInto(connection, into);
  };
  buffer.memory = pool.Take();
  Start(read_into(*pair.ours, buffer, size));
  Turn();
  EXPECT_EQ(buffer.memory, nullptr);
  Say(pair.theirs, "hello");
  Turn();
  EXPECT_EQ(size, 5U);
  EXPECT_NE(buffer.memory, nullptr);
}

}  // namespace
}  // namespace recourse::connection_test
