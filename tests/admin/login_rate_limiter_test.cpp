#include "proxy/admin/access/login_rate_limiter.h"

#include <gtest/gtest.h>

#include "proxy/base/limits.h"
#include "tests/support/test_loop.h"

namespace recourse::login_gate_test {
namespace {

TEST(LoginGateTest, FailuresOfOneAddressHoldUpThatAddressOnlyAndForAWhile) {
  TestLoop loop;
  LoginRateLimiter gate(loop.clock());
  for (int i = 0; i < limits::kLoginFailuresOfPeer; ++i) {
    EXPECT_EQ(gate.WaitOf("a"), Millis(0));
    gate.Fail("a");
  }
  const Millis wait = gate.WaitOf("a");
  EXPECT_GT(wait, Millis(0));
  EXPECT_LE(wait, limits::kLoginFailureOfPeerEvery + Millis(1));
  EXPECT_EQ(gate.WaitOf("b"), Millis(0));
  loop.Skip(wait);
  EXPECT_EQ(gate.WaitOf("a"), Millis(0));
}

TEST(LoginGateTest, FailuresOfManyAddressesAreBoundedTogether) {
  TestLoop loop;
  LoginRateLimiter gate(loop.clock());
  for (int i = 0; i < limits::kLoginFailuresOfAll; ++i) gate.Fail("peer" + std::to_string(i));
  EXPECT_GT(gate.WaitOf("new"), Millis(0));
  loop.Skip(limits::kLoginFailureOfAllEvery + Millis(1));
  EXPECT_EQ(gate.WaitOf("new"), Millis(0));
}

}  // namespace
}  // namespace recourse::login_gate_test
