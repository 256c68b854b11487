// Connecting when the process may open no more files, over real sockets and threads.
#include "proxy/net/upstream/connector.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"

namespace recourse::connector_test {
namespace {

// As long as it lives the process may open no more files.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int file = 0; (file = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
      files_.push_back(file);
    }
  }
  ~NoMoreFiles() {
    for (const int file : files_) ::close(file);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  // One of them, for the caller to close.
  int Take() {
    const int file = files_.back();
    files_.pop_back();
    return file;
  }

 private:
  rlimit before_{};
  std::vector<int> files_;
};

class ConnectorTest : public testing::Test {
 protected:
  ConnectorTest() {
    backend_.name = "shop";
    backend_.scheme = "http";
    backend_.host = "127.0.0.1";
    backend_.port = LocalEnd(listening_.fd())->port();
    backend_.connect_timeout = Millis(600'000);
    backend_.addresses.classes = {AddressClass::kLoopback};
    for (IoThread* const thread : {&one_, &other_})
      thread->files().HasPeers({&one_.files(), &other_.files()});
  }
  ~ConnectorTest() override {
    for (IoThread* const thread : {&one_, &other_}) thread->Stop();
    for (IoThread* const thread : {&one_, &other_}) thread->Join();
  }

  void SetUp() override {
#if __has_feature(undefined_behavior_sanitizer)
    GTEST_SKIP()
        << "this sanitizer opens files to look at objects, and calls those bad if it cannot";
#endif
  }

  void MakesRoomFor(const char* host);

  // What came of connecting on the first thread.
  Error ConnectOnOne() {
    if (!std::exchange(is_started_, true)) {
      for (IoThread* const thread : {&one_, &other_}) thread->Start();
    }
    std::promise<Error> done;
    std::vector<Job> jobs;
    jobs.emplace_back([&] { Spawn(Try(done), [] {}); });
    one_.Post(std::move(jobs));
    return done.get_future().get();
  }
  Task<void> Try(std::promise<Error>& done) {
    const auto connected = co_await Connect(one_, backend_, own_);
    done.set_value(connected ? Error() : connected.error());
  }

  const SystemClock clock_;
  const Socket listening_ = Socket::ListeningAt({boost::asio::ip::address_v4::loopback(), 0});
  const OwnListeners own_;
  Backend backend_;
  bool is_started_ = false;
  IoThread one_{clock_}, other_{clock_};
};

// Looking up a name takes files as well.
// One connection per process: what an earlier one closes late would be room, too.
void ConnectorTest::MakesRoomFor(const char* host) {
  backend_.host = host;
  NoMoreFiles full;
  std::vector<int> kept;
  for (int i = 0; i < 4; ++i) kept.push_back(full.Take());
  std::mutex guard;
  other_.files().WhenShort([&] {
    const std::scoped_lock lock(guard);
    for (const int file : kept) ::close(file);
    return !std::exchange(kept, {}).empty();
  });
  EXPECT_EQ(ConnectOnOne().detail(), "");
  EXPECT_TRUE(kept.empty());
}

TEST_F(ConnectorTest, WhatAnotherThreadKeepsForLaterMakesRoom) { MakesRoomFor("127.0.0.1"); }

TEST_F(ConnectorTest, WhatAnotherThreadKeepsForLaterMakesRoomToLookUpAName) {
  MakesRoomFor("localhost");
}

TEST_F(ConnectorTest, WhereNobodyKeepsAnythingItSaysWhatIsMissing) {
  const NoMoreFiles full;
  other_.files().WhenShort([] { return false; });
  for (const char* host : {"127.0.0.1", "localhost"}) {
    backend_.host = host;
    const Error failed = ConnectOnOne();
    EXPECT_EQ(failed.delivery(), Delivery::kNotSent);
    EXPECT_NE(failed.detail().find("may open no more files"), std::string_view::npos) << host;
  }
}

}  // namespace
}  // namespace recourse::connector_test
