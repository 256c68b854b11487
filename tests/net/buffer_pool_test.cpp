#include "proxy/net/loop/buffer_pool.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

namespace recourse::buffer_pool_test {
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
  PeriodicTasks upkeep{wheel, clock};
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

// From here on no memory is unmapped; true: the kernel does so.
bool RefuseToUnmap() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_munmap, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{.len = std::size(rules), .filter = rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(BufferPoolTest, KeepsWhatTheSystemDoesNotTakeBack) {
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer unmaps memory of its own with each, and ends when it cannot";
#endif
  if (::prctl(PR_GET_SECCOMP) < 0) GTEST_SKIP() << "a kernel without seccomp";
  Take(100).clear();
  (void)pool.Trim();
  const auto trim = [this] {
    const bool has_more = RefuseToUnmap() && pool.Trim() && pool.kept() == 100;
    std::_Exit(has_more ? 0 : 1);
  };
  EXPECT_EXIT(trim(), testing::ExitedWithCode(0), "");
  EXPECT_FALSE(pool.Trim());
  EXPECT_EQ(pool.kept(), BufferPool::kFloor);
}

TEST(UpkeepTest, WhoWasAddedFirstSeesWhatTheOthersLetGo) {
  StillClock clock;
  DeadlineWheel wheel(kStart);
  PeriodicTasks upkeep(wheel, clock);
  std::string order;
  for (const char name : {'a', 'b', 'c'}) {
    upkeep.Add([&order, name] {
      order += name;
      return false;
    });
  }
  upkeep.Want();
  wheel.Advance(kStart + std::chrono::seconds(2));
  EXPECT_EQ(order, "cba");
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
}  // namespace recourse::buffer_pool_test
