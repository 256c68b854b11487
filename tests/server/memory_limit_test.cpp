#include "proxy/startup/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "proxy/base/limits.h"

namespace recourse::memory_limit_test {
namespace {

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() {
    std::string name = ::testing::TempDir() + "memory_limit_XXXXXX";
    mounts_ = ::mkdtemp(name.data());
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(mounts_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = mounts_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  std::string mounts_;
};

TEST_F(MemoryLimitTest, OfVersionTwoTheSmallestOnTheWayUpCounts) {
  Write("memory.max", "max");
  Write("pods/memory.max", "1000000");
  Write("pods/one/memory.max", "2000000");
  EXPECT_EQ(MemoryLimitOf("0::/pods/one\n", mounts_), 1'000'000u);
  EXPECT_EQ(MemoryLimitOf("0::/\n", mounts_), std::nullopt);
}

TEST_F(MemoryLimitTest, OfVersionOneTheMemoryControllerCounts) {
  Write("memory/pod/memory.limit_in_bytes", "536870912");
  Write("memory/memory.limit_in_bytes", "9223372036854771712");
  const std::string groups = "9:name=systemd:/pod\n4:cpu,memory:/pod\n1:cpu:/other\n0::/\n";
  EXPECT_EQ(MemoryLimitOf(groups, mounts_), 536'870'912u);
  EXPECT_EQ(MemoryLimitOf("1:cpu:/pod\n", mounts_), std::nullopt);
}

TEST_F(MemoryLimitTest, AContainerSeesItsOwnGroupAtTheMountPoint) {
  Write("memory/memory.limit_in_bytes", "268435456");
  EXPECT_EQ(MemoryLimitOf("4:memory:/docker/4711\n", mounts_), 268'435'456u);
  Write("memory.max", "134217728");
  EXPECT_EQ(MemoryLimitOf("0::/../../far/away\n", mounts_), 134'217'728u);
}

TEST_F(MemoryLimitTest, WhatCannotBeReadIsNoLimit) {
  for (const char* groups : {"", "\n", "0", "0:", "::", "0::/gone", "4:memory:", "4:memory:/\n"}) {
    EXPECT_EQ(MemoryLimitOf(groups, mounts_), std::nullopt) << groups;
  }
}

TEST_F(MemoryLimitTest, CallsMayHoldThreeEighths) {
  EXPECT_EQ(CallMemoryFor(std::uint64_t{512} << 20), std::size_t{192} << 20);
  EXPECT_EQ(CallMemoryFor(std::uint64_t{16} << 20), limits::kCallMemoryBytesMin);
  EXPECT_EQ(CallMemoryFor(std::nullopt), limits::kCallMemoryBytes);
}

}  // namespace
}  // namespace recourse::memory_limit_test
