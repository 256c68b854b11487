#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "proxy/net/tls/tls_context.h"

namespace recourse::tls_files_test {
namespace {

using Look = FileState::Look;

class FileStateTest : public testing::Test {
 protected:
  FileStateTest() {
    std::filesystem::create_directories(directory_);
    Write(a_, "one");
  }
  ~FileStateTest() override { std::filesystem::remove_all(directory_); }
  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text;
  }

  const std::string directory_ = testing::TempDir() + "/tls_files_" +
                                 testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string a_ = directory_ + "/a", b_ = directory_ + "/b";
};

TEST_F(FileStateTest, WhatStaysTheSameHasNotChanged) {
  FileState state({a_, b_, ""});
  EXPECT_FALSE(state.HasChanged(Look::kAtOnce));
  EXPECT_FALSE(state.HasChanged(Look::kSettled));
}

TEST_F(FileStateTest, AChangeCountsOnceTwoLooksHaveSeenTheSame) {
  FileState state({a_, b_});
  Write(a_, "two");
  EXPECT_FALSE(state.HasChanged(Look::kSettled));
  Write(b_, "appears");
  EXPECT_FALSE(state.HasChanged(Look::kSettled));
  EXPECT_TRUE(state.HasChanged(Look::kSettled));
  EXPECT_FALSE(state.HasChanged(Look::kSettled));
}

TEST_F(FileStateTest, AtOnceMeansAtOnce) {
  FileState state({a_});
  Write(a_, "two");
  EXPECT_TRUE(state.HasChanged(Look::kAtOnce));
  std::filesystem::remove(a_);
  EXPECT_TRUE(state.HasChanged(Look::kAtOnce));
}

}  // namespace
}  // namespace recourse::tls_files_test
