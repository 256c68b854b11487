#include "proxy/net/loop/listener.h"

#include <gtest/gtest.h>

#include <boost/asio/ip/address_v4.hpp>
#include <future>
#include <utility>
#include <vector>

#include "proxy/base/clock.h"

namespace recourse::listener_test {
namespace {

// An operator may order a drain in the moment in which a process says where it listens.
TEST(Listener, SaysWhereItListenedWhenItIsClosedToo) {
  const SystemClock clock;
  IoThread thread(clock);
  Listener listener({&thread}, {boost::asio::ip::address_v4::loopback(), 0},
                    [](std::size_t, Socket) {});
  const Tcp::endpoint told = listener.endpoint();
  EXPECT_NE(told.port(), 0);
  listener.Start();
  listener.Close();
  std::promise<void> closed;
  std::vector<Job> jobs;
  jobs.emplace_back([&closed] { closed.set_value(); });
  thread.Post(std::move(jobs));
  thread.Start();
  closed.get_future().wait();
  thread.Stop();
  thread.Join();
  EXPECT_EQ(listener.endpoint(), told);
}

}  // namespace
}  // namespace recourse::listener_test
