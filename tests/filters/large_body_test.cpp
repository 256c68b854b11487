// Large bodies are judged elsewhere, and hold up nobody meanwhile.
#include <gtest/gtest.h>

#include "proxy/base/thread_pool.h"
#include "tests/filters/calls.h"
#include "tests/filters/saga_shop.h"

namespace recourse::large_body_test {
namespace {

// Jobs wait until the test runs them.
class ApartKeeper final : public RoomyKeeper {
 public:
  explicit ApartKeeper(ThreadPool& pool) : pool_(pool) {}
  Task<bool> RunApart(Job job, Executor& executor) override {
    return pool_.Run("agent", std::move(job), executor);
  }

 private:
  ThreadPool& pool_;
};

class LargeBodyTest : public testing::Test {
 protected:
  CallSpec Large(const std::string& begin, const std::string& end = "\"}") {
    CallSpec call = Order();
    call.body = begin + std::string(limits::kLargeBodyBytes, 'x') + end;
    call.keeper = &keeper;
    return call;
  }
  int RunJobs() {
    int count = 0;
    for (; pool.RunNext(); ++count) world.loop.RunReady();
    return count;
  }

  World world{kShopPolicy};
  ThreadPool pool{4};
  ApartKeeper keeper{pool};
};

TEST_F(LargeBodyTest, OtherCallsAreAnsweredWhileItIsJudged) {
  const auto large = world.Start(Large(R"({"item":"a","note":")"));
  EXPECT_EQ(pool.jobs(), 1U);
  CallSpec small = Order();
  small.keeper = &keeper;
  EXPECT_EQ(world.Call(small).status, 201);
  EXPECT_FALSE(large->done);
  EXPECT_EQ(world.upstream.writes.size(), 1U);
  EXPECT_EQ(RunJobs(), 1);
  ASSERT_TRUE(large->done);
  EXPECT_EQ(large->status, 201);
  EXPECT_EQ(world.upstream.writes.size(), 2U);

  const auto repeat = world.Start(Large(R"({"item":"a","note":")"));
  RunJobs();
  EXPECT_TRUE(repeat->done && repeat->replayed);
}

TEST_F(LargeBodyTest, WhetherItNeedsAHumanIsJudgedElsewhereToo) {
  CallSpec call = Large(R"({"amount":1,"note":")");
  call.target = "/pay";
  const auto told = world.Start(call);
  EXPECT_TRUE(world.upstream.writes.empty());
  EXPECT_EQ(RunJobs(), 2);
  EXPECT_EQ(told->status, 201);
}

TEST_F(LargeBodyTest, WhatCannotBeReadIsRefusedWithTheReason) {
  const auto told = world.Start(Large(R"({"item":"a","item":")"));
  EXPECT_EQ(RunJobs(), 1);
  EXPECT_EQ(told->error, ErrorCode::kMalformedRequest);
  EXPECT_NE(told->body.find("duplicate"), std::string::npos) << told->body;
}

TEST_F(LargeBodyTest, WhereTooManyWaitItIsRefusedUnsent) {
  std::vector<std::shared_ptr<Told>> calls;
  for (const char* item : {"a", "b", "c", "d"}) {
    calls.push_back(world.Start(Large(R"({"item":")" + std::string(item) + R"(","note":")")));
  }
  ASSERT_TRUE(calls.back()->done);
  EXPECT_EQ(calls.back()->status, 503);
  EXPECT_EQ(calls.back()->error, ErrorCode::kOverloaded);
  EXPECT_EQ(calls.back()->Field("Recourse-Outcome"), "not_executed");
  EXPECT_EQ(RunJobs(), 3);
  EXPECT_EQ(world.upstream.writes.size(), 3U);
}

// What the backend said has to be judged in any case.
TEST_F(LargeBodyTest, ALargeAnswerIsReadElsewhereOrHereWhereThatHasNoRoom) {
  world.upstream.otherwise =
      Respond(201, R"({"id":"ord_1","note":")" + std::string(limits::kLargeBodyBytes, 'x') + "\"}");
  CallSpec call = Order();
  call.keeper = &keeper;
  const auto told = world.Start(call);
  EXPECT_FALSE(told->done);
  EXPECT_EQ(RunJobs(), 1);
  ASSERT_TRUE(told->done);
  EXPECT_EQ(world.Events().back().external_ref, "ord_1");

  for (int i = 0; i < 3; ++i) (void)world.Start(Large(R"({"item":")" + std::to_string(i)));
  call.body = R"({"item":"chair"})";
  EXPECT_EQ(world.Call(call).status, 201);
  RunJobs();
}

}  // namespace
}  // namespace recourse::large_body_test
