#include "proxy/base/thread_pool.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/test_loop.h"

namespace recourse::thread_pool_test {
namespace {

class ThreadPoolTest : public testing::Test {
 protected:
  // What Run() came to, once it has.
  std::shared_ptr<std::optional<bool>> Ask(const std::string& owner, const std::string& what) {
    auto told = std::make_shared<std::optional<bool>>();
    loop_.Start(Wait(owner, what, told));
    return told;
  }
  Task<void> Wait(std::string owner, std::string what, std::shared_ptr<std::optional<bool>> told) {
    *told = co_await pool_.Run(owner, [this, what] { done_.push_back(what); }, loop_.executor());
  }
  void RunAll() {
    while (pool_.RunNext()) {
    }
    loop_.RunReady();
  }

  TestLoop loop_;
  ThreadPool pool_{8};
  std::vector<std::string> done_;
};

TEST_F(ThreadPoolTest, OwnersTakeTurnsAndEachKeepsItsOrder) {
  for (const char* what : {"a1", "a2", "a3"}) (void)Ask("a", what);
  for (const char* what : {"b1", "b2"}) (void)Ask("b", what);
  (void)Ask("c", "c1");
  EXPECT_EQ(pool_.jobs(), 6U);
  RunAll();
  EXPECT_EQ(done_, (std::vector<std::string>{"a1", "b1", "c1", "a2", "b2", "a3"}));
  EXPECT_EQ(pool_.jobs(), 0U);
}

TEST_F(ThreadPoolTest, OneOwnerLeavesAQuarterAndWhatHasNoRoomIsNotRun) {
  std::vector<std::shared_ptr<std::optional<bool>>> mine;
  for (int i = 0; i < 7; ++i) mine.push_back(Ask("a", "a"));
  EXPECT_FALSE(mine[5]->has_value());
  EXPECT_EQ(*mine[6], false);
  const auto other = Ask("b", "b"), last = Ask("b", "b"), none = Ask("c", "c");
  EXPECT_FALSE(last->has_value());
  EXPECT_EQ(*none, false);
  RunAll();
  EXPECT_EQ(*mine[5], true);
  EXPECT_EQ(*other, true);
  EXPECT_EQ(done_.size(), 8U);
  const auto again = Ask("c", "c");
  RunAll();
  EXPECT_EQ(*again, true);
}

TEST_F(ThreadPoolTest, WhoWaitsGoesOnWithItsExecutorAndNotBefore) {
  const auto told = Ask("a", "a");
  EXPECT_TRUE(pool_.RunNext());
  EXPECT_EQ(done_.size(), 1U);
  EXPECT_FALSE(told->has_value());
  loop_.RunReady();
  EXPECT_EQ(*told, true);
}

TEST_F(ThreadPoolTest, ThreadsDoTheWork) {
  pool_.Start(2, "test-pool");
  std::vector<std::thread::id> where(6);
  std::size_t told = 0;
  const auto ask = [](ThreadPool& pool, Executor& executor, std::thread::id& at,
                      std::size_t& count) -> Task<void> {
    const bool has_run =
        co_await pool.Run("a", [&at] { at = std::this_thread::get_id(); }, executor);
    count += has_run ? 1 : 0;
  };
  for (auto& at : where) loop_.Start(ask(pool_, loop_.executor(), at, told));
  while (told < where.size()) loop_.RunReady();
  for (const auto& at : where) {
    EXPECT_NE(at, std::this_thread::get_id());
    EXPECT_NE(at, std::thread::id());
  }
  pool_.Stop();
}

TEST_F(ThreadPoolTest, WhatWaitsWhenItStopsIsNotRun) {
  pool_.Start(1, "test-pool");
  pool_.Stop();
  const auto told = Ask("a", "a");
  loop_.RunReady();
  EXPECT_FALSE(told->has_value());
  EXPECT_TRUE(done_.empty());
  RunAll();  // ends who waits, whose frame nobody else lets go of
}

}  // namespace
}  // namespace recourse::thread_pool_test
