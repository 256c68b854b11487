#include "proxy/base/work_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <expected>
#include <future>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/due_queue.h"
#include "tests/support/test_loop.h"

namespace recourse::work_loop_test {
namespace {

MonoTime At(int millis) { return MonoTime(Millis(millis)); }

TEST(DueQueueTest, GivesWhatHasBeenDueForLongestAndNothingBeforeItsTime) {
  DueQueue<int> queue;
  EXPECT_EQ(std::nullopt, queue.Take(At(9)));
  queue.Set(1, At(3));
  queue.Set(2, At(2));
  queue.Set(3, At(8));
  queue.Set(1, At(1));
  EXPECT_EQ(std::nullopt, queue.Take(At(0)));
  EXPECT_EQ(1, queue.Take(At(5)));
  EXPECT_EQ(2, queue.Take(At(5)));
  EXPECT_EQ(std::nullopt, queue.Take(At(5)));
  EXPECT_EQ(At(8), queue.next());
}

TEST(DueQueueTest, WhatWasTakenIsGivenAgainOnlyOnceItWasPutBack) {
  DueQueue<int> queue;
  queue.Set(1, At(1));
  ASSERT_EQ(1, queue.Take(At(1)));
  queue.Set(1, At(2));
  EXPECT_TRUE(queue.IsTaken(1));
  EXPECT_EQ(std::nullopt, queue.Take(At(9)));
  EXPECT_EQ(std::nullopt, queue.next());
  queue.PutBack(1);
  EXPECT_EQ(At(2), queue.next());
  ASSERT_EQ(1, queue.Take(At(9)));
  queue.Forget(1);
  queue.PutBack(1);
  EXPECT_FALSE(queue.Contains(1));
  EXPECT_EQ(std::nullopt, queue.next());
}

// Against a model that looks through everything.
TEST(DueQueueTest, RandomUseIsWhatAModelSays) {
  struct Row {
    int at = 0;
    bool is_taken = false;
  };
  std::mt19937 random(7);
  const auto draw = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  DueQueue<int> queue;
  std::map<int, Row> model;
  for (int step = 0; step < 20'000; ++step) {
    const int key = draw(12), at = draw(50);
    const auto row = model.find(key);
    switch (draw(4)) {
      case 0:
        queue.Set(key, At(at));
        model[key].at = at;
        break;
      case 1:
        queue.Forget(key);
        model.erase(key);
        break;
      case 2:
        if (row == model.end() || !row->second.is_taken) break;
        queue.PutBack(key);
        row->second.is_taken = false;
        break;
      default: {
        std::optional<std::pair<int, int>> first;
        for (const auto& [id, its] : model) {
          const std::pair candidate(its.at, id);
          if (!its.is_taken && its.at <= at && (!first || candidate < *first)) first = candidate;
        }
        const std::optional<int> taken = queue.Take(At(at));
        ASSERT_EQ(first ? std::optional(first->second) : std::nullopt, taken) << step;
        if (taken) model.at(*taken).is_taken = true;
      }
    }
  }
}

struct LoopTest : testing::Test {
  TestLoop world;
  WorkLoop loop{world.executor(), world.timer(), world.clock(), Millis(100)};
  std::vector<int> looked;  // when, in milliseconds since the start
  std::optional<MonoTime> next;
  bool has_ended = false;

  void Start() {
    world.Start([](LoopTest& self, MonoTime start) -> Task<void> {
      co_await self.loop.Run(
          [&self, start] {
            if (self.next && *self.next <= self.world.now()) self.next.reset();
            self.looked.push_back(static_cast<int>(
                std::chrono::duration_cast<Millis>(self.world.now() - start).count()));
          },
          [&self] { return self.next; });
      co_await self.loop.Drain();
      self.has_ended = true;
    }(*this, world.now()));
  }
};

TEST_F(LoopTest, LooksWhenSomethingIsDueAndATickLaterAtTheLatest) {
  next = world.now() + Millis(30);
  Start();
  world.RunFor(Millis(30));
  EXPECT_EQ(looked, (std::vector{0, 30}));
  next = MonoTime::max();
  loop.Wake();
  world.RunFor(Millis(250));
  EXPECT_EQ(looked, (std::vector{0, 30, 30, 130, 230}));
  loop.Stop();
  world.RunFor(Millis(100));
  EXPECT_TRUE(has_ended);
}

TEST_F(LoopTest, WithNothingDueItLooksWhenItIsWoken) {
  Start();
  world.RunFor(Millis(5'000));
  EXPECT_EQ(looked, (std::vector{0}));
  loop.Wake();
  EXPECT_EQ(looked, (std::vector{0, 5'000}));
  loop.Stop();
  world.RunReady();
  EXPECT_TRUE(has_ended);
}

TEST_F(LoopTest, EndsAfterTheLastTaskThatItBegan) {
  Start();
  bool is_done = false;
  loop.Spawn(
      [](TestLoop& its) -> Task<void> {
        co_await its.timer().SleepUntil(its.now() + Millis(700));
      }(world),
      [&] { is_done = true; });
  EXPECT_EQ(1U, loop.active());
  loop.Stop();
  world.RunFor(Millis(699));
  EXPECT_FALSE(has_ended);
  EXPECT_FALSE(world.Run(loop.Pause()));
  world.RunFor(Millis(1));
  EXPECT_TRUE(is_done);
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(0U, loop.active());
}

TEST_F(LoopTest, AnotherThreadWaitsForWhatItBeginsAndIsLetGoAtTheEnd) {
  const auto seven = [&] {
    return loop.Await<int>([]() -> Task<std::expected<int, std::string>> { co_return 7; });
  };
  const auto answer_of = [&](std::future<std::expected<int, std::string>> asking) {
    while (asking.wait_for(Millis(0)) != std::future_status::ready) world.RunReady();
    return asking.get();
  };
  EXPECT_EQ(7, answer_of(std::async(std::launch::async, seven)).value());

  loop.Stop();
  world.RunReady();
  EXPECT_EQ(kShuttingDown, answer_of(std::async(std::launch::async, seven)).error());

  loop.Close();  // nobody runs its jobs any more
  EXPECT_EQ(kShuttingDown, seven().error());
}

}  // namespace
}  // namespace recourse::work_loop_test
