#include "proxy/base/short_turns.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <thread>

namespace recourse::short_turns_test {
namespace {

// The field of sched_getattr(2) that says how long the calling thread works before others.
std::uint64_t TurnNanoseconds() {
  std::array<std::uint64_t, 6> attributes{};
  EXPECT_EQ(0, ::syscall(SYS_sched_getattr, 0, attributes.data(), sizeof attributes, 0));
  return attributes[3];
}

TEST(ShortTurnsTest, ShortensTheTurnsOfItsThreadAndKeepsItsPriority) {
  const std::uint64_t before = TurnNanoseconds();
  std::thread([&] {
    ASSERT_EQ(0, ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 5));
    TakeShortTurns();
    const std::uint64_t after = TurnNanoseconds();
    // A kernel that knows nothing of it tells the same as before.
    EXPECT_TRUE(after == 100'000 || after == before) << after;
    EXPECT_EQ(5, ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())));
    EXPECT_EQ(SCHED_OTHER, ::sched_getscheduler(0));
  }).join();
  EXPECT_EQ(before, TurnNanoseconds());
}

}  // namespace
}  // namespace recourse::short_turns_test
