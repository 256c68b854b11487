#include "proxy/net/loop/io_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/base/post_job.h"

namespace recourse::io_thread_test {
namespace {

constexpr int kSocket = -1;

// Stands for a socket that has become ready.
struct Ready final : PendingOp {
  explicit Ready(std::vector<int>& noted) : PendingOp(&Ready::Run), ran(noted) {}
  static void Run(PendingOp& self) { static_cast<Ready&>(self).ran.push_back(kSocket); }
  std::vector<int>& ran;
};

TEST(IoThreadTest, PostedJobsRunInOrderAndSocketsGetTheirTurnBetweenThem) {
  const SystemClock clock;
  IoThread thread(clock);
  std::vector<int> ran;
  Ready socket(ran);
  std::promise<void> all;
  const auto batch = [&](int from) {
    std::vector<Job> jobs;
    for (int i = from; i < from + 10; ++i) {
      jobs.emplace_back([&ran, i] { ran.push_back(i); });
    }
    return jobs;
  };
  thread.Post(batch(0));
  thread.reactor().Queue(socket);
  thread.Post(batch(10));
  std::vector<Job> last;
  last.emplace_back([&all] { all.set_value(); });
  thread.Post(std::move(last));
  thread.Start();
  all.get_future().wait();
  thread.Stop();
  thread.Join();
  ASSERT_EQ(ran.size(), 21U);
  const auto at = std::find(ran.begin(), ran.end(), kSocket);
  EXPECT_LT(at - ran.begin(), 10);
  ran.erase(at);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

TEST(IoThreadTest, AThreadThatSleepsIsWokenByEachJob) {
  const SystemClock clock;
  IoThread thread(clock);
  thread.Start();
  for (int i = 0; i < 1'000; ++i) {
    std::promise<void> done;
    std::vector<Job> jobs;
    jobs.emplace_back([&done] { done.set_value(); });
    thread.Post(std::move(jobs));
    done.get_future().wait();
  }
  thread.Stop();
  thread.Join();
}

// Stands for sockets that always have more.
struct Busy final : PendingOp {
  explicit Busy(Reactor& of) : PendingOp(&Busy::Run), reactor(of) { reactor.Queue(*this); }
  static void Run(PendingOp& self) {
    auto& busy = static_cast<Busy&>(self);
    ++busy.turns;
    busy.reactor.Queue(busy);
  }
  Reactor& reactor;
  std::size_t turns = 0;
};

TEST(IoThreadTest, AsiosObjectsHaveTheirTurnBesideSocketsThatAlwaysHaveMore) {
  const SystemClock clock;
  IoThread thread(clock);
  Busy busy(thread.reactor());
  boost::asio::steady_timer timer(thread.context(), std::chrono::milliseconds(1));
  boost::asio::local::stream_protocol::socket ours(thread.context()), theirs(thread.context());
  boost::asio::local::connect_pair(ours, theirs);
  std::string got(5, ' ');
  std::promise<std::size_t> read;
  timer.async_wait([&](const boost::system::error_code& late) {
    EXPECT_FALSE(late);
    boost::asio::async_write(theirs, boost::asio::buffer("hello", 5), [](auto...) {});
  });
  boost::asio::async_read(
      ours, boost::asio::buffer(got),
      [&](const boost::system::error_code&, std::size_t size) { read.set_value(size); });
  thread.Start();
  EXPECT_EQ(read.get_future().get(), 5);
  EXPECT_EQ(got, "hello");
  thread.Stop();
  thread.Join();
  EXPECT_GT(busy.turns, 0);
}

class StillClock final : public Clock {
 public:
  MonoTime Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  MonoTime now{std::chrono::hours(1)};
};

TEST(IoThreadTest, ItIsToldHowLongEachTurnTookWhateverItWasFor) {
  StillClock clock;
  IoThread thread(clock);
  std::vector<std::chrono::nanoseconds> turns;
  thread.OnTurn([&](std::chrono::nanoseconds took) { turns.push_back(took); });
  std::promise<void> done, later;
  PostJob(thread, [&clock] { clock.now += std::chrono::seconds(3); });
  PostJob(thread, [&done] { done.set_value(); });
  thread.Start();
  done.get_future().wait();
  PostJob(thread, [&later] { later.set_value(); });
  later.get_future().wait();
  thread.Stop();
  thread.Join();
  EXPECT_EQ(std::ranges::count(turns, std::chrono::seconds(3)), 1);
}

}  // namespace
}  // namespace recourse::io_thread_test
