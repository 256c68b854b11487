#include "proxy/notify/notification_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace recourse::news_queue_test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using testing::ElementsAre;

Notification Flow(std::uint64_t number) { return {Notification::Of::kFlow, number}; }
Notification Approval(std::uint64_t number) { return {Notification::Of::kApproval, number}; }

class NewsQueueTest : public testing::Test {
 protected:
  // Goes on for so long; `is_taken` is the receiver. What it was asked, in order.
  template <class Receiver>
  std::vector<Notification> Run(Millis time, const Receiver& is_taken) {
    std::vector<Notification> asked;
    const MonoTime end = now_ + time;
    while (!queue_.empty() && now_ < end) {
      const auto news = queue_.Take(now_);
      if (!news) {
        EXPECT_GT(queue_.next_try(), now_);
        now_ = queue_.next_try();
        continue;
      }
      asked.push_back(*news);
      if (is_taken(*news)) {
        queue_.Taken();
      } else {
        queue_.Failed(*news, now_, 0);
      }
    }
    return asked;
  }
  std::vector<Notification> Outage(Millis time) {
    return Run(time, [](const Notification&) { return false; });
  }
  std::vector<Notification> Receives(Millis time) {
    return Run(time, [](const Notification&) { return true; });
  }

  NotificationQueue queue_;
  MonoTime now_{hours(1)};
};

TEST_F(NewsQueueTest, NewsIsToldInTheOrderOfItsAgeWhateverItIsAbout) {
  queue_.Add(Approval(7));
  queue_.Add(Flow(9));
  queue_.Add(Approval(3));
  queue_.Add(Approval(7));
  EXPECT_THAT(Receives(seconds(1)), ElementsAre(Approval(7), Flow(9), Approval(3)));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(NewsQueueTest, AfterALongOutageAllIsToldWithinHalfAMinute) {
  for (std::uint64_t i = 1; i <= 50; ++i) queue_.Add(i % 2 == 0 ? Flow(i) : Approval(i));
  const auto tries = Outage(hours(10));
  EXPECT_GT(tries.size(), 10 * 3'600 / 32) << "often enough to notice that it is back";
  EXPECT_LT(tries.size(), 10 * 3'600 / 10) << "and no burden";
  EXPECT_EQ(Receives(seconds(33)).size(), 50U);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(NewsQueueTest, NewNewsIsTriedAtOnceAndItsSuccessBringsOnTheRest) {
  queue_.Add(Flow(1));
  queue_.Add(Flow(2));
  Outage(hours(1));
  ASSERT_GT(queue_.next_try(), now_ - seconds(1));
  queue_.Add(Approval(3));
  const MonoTime began = now_;
  EXPECT_EQ(Receives(seconds(1)).size(), 3U);
  EXPECT_LE(now_ - began, seconds(1));
}

TEST_F(NewsQueueTest, ABurstOfNewNewsInAnOutageIsTriedOnceASecond) {
  queue_.Add(Flow(1));
  Outage(hours(1));
  for (std::uint64_t i = 2; i <= 100; ++i) queue_.Add(Approval(i));
  EXPECT_LE(Outage(seconds(20)).size(), 60U);
}

TEST_F(NewsQueueTest, WhatIsNeverTakenStopsNothingElse) {
  const auto is_taken = [](const Notification& news) { return news.of != Notification::Of::kFlow; };
  for (std::uint64_t i = 1; i <= 3; ++i) queue_.Add(Flow(i));
  Run(hours(1), is_taken);
  for (std::uint64_t i = 1; i <= 1'000; ++i) queue_.Add(Approval(i));
  const auto asked = Run(seconds(5), is_taken);
  EXPECT_GE(asked.size(), 1'000U);
  EXPECT_LE(asked.size(), 1'010U);
}

TEST_F(NewsQueueTest, NewNewsThatIsNeverTakenPutsOffNothingThatWaits) {
  queue_.Add(Flow(1));
  Outage(seconds(10));
  const auto is_taken = [](const Notification& news) { return news.of == Notification::Of::kFlow; };
  const MonoTime began = now_;
  bool is_told = false;
  for (std::uint64_t i = 1; !is_told && i < 1'000; ++i) {
    queue_.Add(Approval(i));
    for (const Notification& news : Run(seconds(1), is_taken)) is_told |= news == Flow(1);
  }
  EXPECT_TRUE(is_told);
  EXPECT_LE(now_ - began, seconds(33));
}

TEST_F(NewsQueueTest, NewerNewsOfTheSameIsToldOnce) {
  queue_.Add(Flow(1));
  const auto first = queue_.Take(now_);
  ASSERT_EQ(first, Flow(1));
  queue_.Add(Flow(1));  // while it is told
  queue_.Failed(*first, now_, 0);
  EXPECT_THAT(Receives(seconds(10)), ElementsAre(Flow(1)));
}

}  // namespace
}  // namespace recourse::news_queue_test
