#include "proxy/net/loop/io_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"

namespace recourse::io_thread_test {
namespace {

constexpr int kSocket = -1;

// Stands for a socket that has become ready.
struct Ready final : Waiter {
  explicit Ready(std::vector<int>& noted) : Waiter(&Ready::Run), ran(noted) {}
  static void Run(Waiter& self) { static_cast<Ready&>(self).ran.push_back(kSocket); }
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

}  // namespace
}  // namespace recourse::io_thread_test
