#include "proxy/exchange/connection_limiter.h"

#include <gtest/gtest.h>

namespace recourse::connection_gate_test {
namespace {

using boost::asio::ip::make_address;

using Full = ConnectionLimiter::Full;

TEST(ConnectionGateTest, TheProcessAndEachPeerHaveABound) {
  ConnectionLimiter gate(3, 2);
  const auto first = make_address("10.0.0.1"), second = make_address("10.0.0.2");
  auto one = gate.Enter(first);
  const auto two = gate.Enter(first);
  ASSERT_TRUE(one && two);
  EXPECT_TRUE(one->IsOf(first) && !one->IsOf(second));
  EXPECT_EQ(gate.Enter(first).error(), Full::kPeer);
  const auto three = gate.Enter(second);
  ASSERT_TRUE(three);
  EXPECT_EQ(gate.Enter(second).error(), Full::kProcess);
  EXPECT_EQ(gate.Enter(first).error(), Full::kPeer) << "its own bound comes first";
  one->GiveBack();
  EXPECT_TRUE(gate.Enter(first)) << "for a moment, as the place was not kept";
  EXPECT_TRUE(gate.Enter(second));
}

TEST(ConnectionGateTest, APlaceIsGivenBackOnce) {
  ConnectionLimiter gate(2, 2);
  const auto peer = make_address("10.0.0.1");
  const auto kept = gate.Enter(peer);
  {
    auto early = gate.Enter(peer);
    ASSERT_TRUE(early);
    early->GiveBack();
    const auto next = gate.Enter(peer);
    ASSERT_TRUE(next);
    early->GiveBack();
    EXPECT_FALSE(gate.Enter(peer));
    auto moved = std::move(*early);
    EXPECT_FALSE(gate.Enter(peer));
  }
  const auto again = gate.Enter(peer);
  EXPECT_TRUE(again);
  EXPECT_FALSE(gate.Enter(peer));
}

TEST(ConnectionGateTest, AnIpv6NetworkIsOnePeer) {
  ConnectionLimiter gate(9, 1);
  const auto first = gate.Enter(make_address("2001:db8:0:1::1"));
  EXPECT_FALSE(gate.Enter(make_address("2001:db8:0:1:ffff::2")));
  EXPECT_TRUE(gate.Enter(make_address("2001:db8:0:2::1")));
}

TEST(ConnectionGateTest, AMappedAddressIsThePeerItMaps) {
  ConnectionLimiter gate(9, 1);
  const auto first = gate.Enter(make_address("10.0.0.1"));
  EXPECT_FALSE(gate.Enter(make_address("::ffff:10.0.0.1")));
  EXPECT_TRUE(gate.Enter(make_address("::ffff:10.0.0.2")));
}

}  // namespace
}  // namespace recourse::connection_gate_test
