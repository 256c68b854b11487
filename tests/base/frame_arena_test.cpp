#include "proxy/base/frame_arena.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace recourse::frame_arena_test {
namespace {

// Blocks are told apart by their address, which means something only while nobody gives it away.
std::set<void*> TakeSome(std::size_t size, std::size_t count) {
  std::set<void*> taken;
  for (std::size_t i = 0; i < count; ++i) taken.insert(FrameArena::New(size));
  return taken;
}
void End(const std::set<void*>& frames, std::size_t size) {
  for (void* const frame : frames) FrameArena::Delete(frame, size);
}

class FrameArenaTest : public testing::TestWithParam<std::size_t> {};

TEST_P(FrameArenaTest, AFrameTakesWhatAnEarlierOneOfItsSizeLeft) {
  if (!FrameArena::kRecycles) GTEST_SKIP() << "AddressSanitizer looks for uses after free";
  const FrameArena arena;
  const auto first = TakeSome(GetParam(), 10);
  End(first, GetParam());
  const auto second = TakeSome(GetParam(), 10);
  EXPECT_EQ(first, second);
  End(second, GetParam());
}

TEST_P(FrameArenaTest, AFrameMayEndOnAnyThread) {
  std::set<void*> frames;
  std::thread([&] {
    const FrameArena arena;
    frames = TakeSome(GetParam(), 10);
  }).join();
  const FrameArena arena;
  const auto ours = TakeSome(GetParam(), 10);
  End(frames, GetParam());
  std::thread([&] { End(ours, GetParam()); }).join();
}

INSTANTIATE_TEST_SUITE_P(Sizes, FrameArenaTest,
                         testing::Values(1, 128, 129, 4'096, 4'097, 15'000, 20'000));

TEST(FrameArena, LeavesVeryLargeFramesToTheHeap) {
  const FrameArena arena;
  End(TakeSome(100'000, 3), 100'000);
}

TEST(FrameArena, KeepsFewLargeFrames) {
  const FrameArena arena;
  End(TakeSome(15'000, 1'000), 15'000);
  EXPECT_LE(arena.kept(15'000), 64U);
}

TEST(FrameArena, AThreadWithoutOneUsesTheHeap) { End(TakeSome(1'000, 3), 1'000); }

}  // namespace
}  // namespace recourse::frame_arena_test
