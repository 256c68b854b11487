#include "proxy/admin/access/sessions.h"

#include <gtest/gtest.h>

#include "proxy/base/limits.h"
#include "tests/support/seeded_random.h"
#include "tests/support/test_loop.h"

namespace recourse::sessions_test {
namespace {

class SessionsTest : public testing::Test {
 protected:
  TestLoop loop_;
  SeededRandom random_;
  Sessions sessions_{loop_.clock(), random_};
};

TEST_F(SessionsTest, ACookieStandsForItsCredential) {
  const auto a = sessions_.Begin("alice", "token-a", "");
  const auto b = sessions_.Begin("bob", "token-b", "");
  EXPECT_NE(a.cookie, b.cookie);
  EXPECT_NE(a.cookie, a.csrf);
  EXPECT_EQ(a.cookie.size(), 43U);
  ASSERT_NE(sessions_.Find(a.cookie), nullptr);
  EXPECT_EQ(sessions_.Find(a.cookie)->credential, "token-a");
  EXPECT_EQ(sessions_.Find(b.cookie)->csrf, b.csrf);
  EXPECT_EQ(sessions_.Find(a.csrf), nullptr);
  EXPECT_EQ(sessions_.Find(""), nullptr);
  sessions_.End(a.cookie);
  EXPECT_EQ(sessions_.Find(a.cookie), nullptr);
  EXPECT_NE(sessions_.Find(b.cookie), nullptr);
}

TEST_F(SessionsTest, ASessionEndsWhenItIsNotUsedAndAfterItsLife) {
  const auto idle = sessions_.Begin("alice", "t", "");
  const auto busy = sessions_.Begin("alice", "t", "");
  const Millis step = limits::kSessionIdle - Millis(1);
  for (Millis passed{0}; passed + step < limits::kSessionLife; passed += step) {
    EXPECT_NE(sessions_.Find(busy.cookie), nullptr);
    loop_.Skip(step);
  }
  EXPECT_EQ(sessions_.Find(idle.cookie), nullptr);
  EXPECT_NE(sessions_.Find(busy.cookie), nullptr);
  loop_.Skip(step);
  EXPECT_EQ(sessions_.Find(busy.cookie), nullptr);
}

TEST_F(SessionsTest, TheirNumberIsBoundedForEachOperatorAndForAll) {
  const auto first = sessions_.Begin("alice", "t", "");
  const auto other = sessions_.Begin("bob", "t", "");
  for (std::size_t i = 0; i < limits::kSessionsPerOperatorMax; ++i) {
    loop_.Skip(Millis(1));
    sessions_.Begin("alice", "t", "");
  }
  EXPECT_EQ(sessions_.Find(first.cookie), nullptr);
  EXPECT_NE(sessions_.Find(other.cookie), nullptr);
  for (std::size_t i = 0; i < limits::kSessionsMax; ++i) {
    sessions_.Begin("person" + std::to_string(i), "t", "");
  }
  EXPECT_EQ(sessions_.size(), limits::kSessionsMax);
}

}  // namespace
}  // namespace recourse::sessions_test
