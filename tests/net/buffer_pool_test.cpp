#include "proxy/net/buffer_pool.h"

#include <gtest/gtest.h>

#include <vector>

namespace recourse {
namespace {

constexpr MonoTime kStart{std::chrono::hours(1)};

class StillClock final : public Clock {
 public:
  MonoTime Now() const override { return now; }
  WallTime WallNow() const override { return {}; }
  MonoTime now = kStart;
};

struct BufferPoolTest : testing::Test {
  std::vector<BufferPool::Buffer> Take(std::size_t count) {
    std::vector<BufferPool::Buffer> taken;
    while (taken.size() < count) taken.push_back(pool.Take());
    return taken;
  }

  StillClock clock;
  DeadlineWheel wheel{kStart};
  Upkeep upkeep{wheel, clock};
  BufferPool pool{upkeep};
};

TEST_F(BufferPoolTest, GivesOutTheOneThatCameBackLast) {
  auto crowd = Take(3);
  char* const last = crowd.front().get();
  crowd.back().reset();
  crowd.front().reset();
  EXPECT_EQ(pool.Take().get(), last);
}

TEST_F(BufferPoolTest, KeepsWhatACrowdNeedsBetweenItsTurns) {
  for (int turn = 0; turn < 5; ++turn) {
    const auto crowd = Take(1'000);
    EXPECT_EQ(pool.kept(), 0U);
    (void)pool.Trim();  // while all of them are in use
  }
  EXPECT_EQ(pool.kept(), 1'000U);
}

TEST_F(BufferPoolTest, LetsGoWhatNobodyNeededSinceTheLastLook) {
  Take(300).clear();
  (void)pool.Trim();  // all of them were needed since the pool began
  EXPECT_EQ(pool.kept(), 300U);
  Take(100).clear();
  EXPECT_TRUE(pool.Trim());
  EXPECT_EQ(pool.kept(), 100U);
  EXPECT_FALSE(pool.Trim());
  EXPECT_EQ(pool.kept(), BufferPool::kFloor);
}

TEST_F(BufferPoolTest, LetsGoOfACrowdInStepsThatHoldNobodyUp) {
  constexpr std::size_t kCrowd = 3 * BufferPool::kTrimmedMax;
  Take(kCrowd).clear();
  (void)pool.Trim();
  for (std::size_t left = kCrowd; left > BufferPool::kTrimmedMax;) {
    left -= BufferPool::kTrimmedMax;
    EXPECT_TRUE(pool.Trim());
    EXPECT_EQ(pool.kept(), left);
  }
  EXPECT_FALSE(pool.Trim());
  EXPECT_EQ(pool.kept(), BufferPool::kFloor);
}

TEST_F(BufferPoolTest, AsksForUpkeepWhenThereIsSomethingToLetGoAndNotForEver) {
  upkeep.Add([this] { return pool.Trim(); });
  EXPECT_TRUE(wheel.empty());
  Take(100).clear();
  int looks = 0;
  for (; !wheel.empty() && looks < 10; ++looks) {
    clock.now += std::chrono::seconds(2);
    wheel.Advance(clock.now);
  }
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(pool.kept(), BufferPool::kFloor);
}

}  // namespace
}  // namespace recourse
