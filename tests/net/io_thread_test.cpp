#include "proxy/net/io_thread.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <vector>

#include "proxy/base/clock.h"

namespace recourse {
namespace {

constexpr int kSocket = -1;

TEST(IoThreadTest, PostedJobsRunInOrderAndSocketsGetTheirTurnBetweenThem) {
  const SystemClock clock;
  IoThread thread(clock);
  std::vector<int> ran;
  const auto batch = [&](int from) {
    std::vector<Job> jobs;
    for (int i = from; i < from + 10; ++i) {
      jobs.emplace_back([&ran, i] { ran.push_back(i); });
    }
    return jobs;
  };
  thread.Post(batch(0));
  boost::asio::post(thread.context(), [&] { ran.push_back(kSocket); });
  thread.Post(batch(10));
  thread.context().poll();
  ASSERT_EQ(ran.size(), 21U);
  const auto socket = std::find(ran.begin(), ran.end(), kSocket);
  EXPECT_LT(socket - ran.begin(), 10);
  ran.erase(socket);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace recourse
