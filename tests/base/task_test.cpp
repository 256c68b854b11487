#include "proxy/base/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace recourse::task_test {
namespace {

Task<int> Answer(int value) { co_return value; }

Task<std::unique_ptr<std::string>> MoveOnly(std::string text) {
  co_return std::make_unique<std::string>(std::move(text));
}

Task<void> Add(int& sum, int value) { sum += co_await Answer(value); }

// Counts how often a frame that holds it is destroyed.
class Counter {
 public:
  explicit Counter(int& count) : count_(&count) {}
  Counter(Counter&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  Counter& operator=(Counter&&) = delete;
  ~Counter() {
    if (count_ != nullptr) ++*count_;
  }

 private:
  int* count_;
};

Task<void> Hold(Counter counter) {
  (void)counter;
  co_return;
}

Task<void> WaitFor(Promise<int>& promise, int& got) { got = co_await promise.Wait(); }

TEST(TaskTest, ATaskDoesNothingUntilItIsAwaited) {
  int sum = 0;
  {
    Task<void> task = Add(sum, 5);
    EXPECT_EQ(sum, 0);
  }
  EXPECT_EQ(sum, 0);
}

TEST(TaskTest, SpawnRunsToTheEndAndThenReports) {
  int sum = 0;
  bool done = false;
  Spawn(Add(sum, 5), [&] {
    EXPECT_EQ(sum, 5);
    done = true;
  });
  EXPECT_TRUE(done);
}

Task<void> TakeText(std::string& out) { out = *co_await MoveOnly("moved"); }

TEST(TaskTest, MoveOnlyValuesAreReturned) {
  std::string out;
  Spawn(TakeText(out), [] {});
  EXPECT_EQ(out, "moved");
}

TEST(TaskTest, AFrameIsDestroyedOnceWhetherItRanOrNot) {
  int destroyed = 0;
  {
    Task<void> never = Hold(Counter(destroyed));
  }
  EXPECT_EQ(destroyed, 1);
  Spawn(Hold(Counter(destroyed)), [] {});
  EXPECT_EQ(destroyed, 2);
  Task<void> moved = Hold(Counter(destroyed));
  {
    Task<void> owner = std::move(moved);
  }
  EXPECT_EQ(destroyed, 3);
}

Task<void> AddMany(int& sum, int count) {
  for (int i = 0; i < count; ++i) co_await Add(sum, 1);
}

TEST(TaskTest, AMillionAwaitsDoNotGrowTheStack) {
  int sum = 0;
  Spawn(AddMany(sum, 1'000'000), [] {});
  EXPECT_EQ(sum, 1'000'000);
}

TEST(PromiseTest, AWaiterGoesOnWhenTheValueIsSet) {
  Promise<int> promise;
  int got = 0;
  bool done = false;
  Spawn(WaitFor(promise, got), [&] { done = true; });
  EXPECT_FALSE(done);
  EXPECT_FALSE(promise.is_set());
  promise.Set(7);
  EXPECT_TRUE(done);
  EXPECT_EQ(got, 7);
}

TEST(PromiseTest, AValueThatIsAlreadyThereIsNotWaitedFor) {
  Promise<int> promise;
  promise.Set(7);
  EXPECT_TRUE(promise.is_set());
  int got = 0;
  Spawn(WaitFor(promise, got), [] {});
  EXPECT_EQ(got, 7);
}

TEST(PromiseTest, TheWaiterMayDestroyThePromise) {
  auto promise = std::make_unique<Promise<int>>();
  int got = 0;
  Spawn(WaitFor(*promise, got), [&] { promise.reset(); });
  promise->Set(7);
  EXPECT_EQ(promise, nullptr);
  EXPECT_EQ(got, 7);
}

TEST(PromiseDeathTest, AValueIsSetOnlyOnce) {
  Promise<int> promise;
  promise.Set(1);
  EXPECT_DEATH(promise.Set(2), "check failed");
}

}  // namespace
}  // namespace recourse::task_test
