#include "proxy/telemetry/sharded_counter.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace recourse::own_series_test {
namespace {

// The values of the only family, by the value of its only label.
std::map<std::string, double> Values(const Counts& counts) {
  std::map<std::string, double> values;
  for (const auto& family : counts.Collect()) {
    for (const auto& metric : family.metric) {
      EXPECT_EQ(metric.label.size(), 1U);
      values[metric.label.front().value] = metric.counter.value;
    }
  }
  return values;
}

TEST(ShardedCounter, AFamilyWithoutSeriesIsNotTold) {
  const Counts counts("calls_total", "Calls.");
  EXPECT_TRUE(counts.Collect().empty());
}

TEST(ShardedCounter, ASeriesBeginsWithItsFirstCellAtZero) {
  Counts counts("calls_total", "Calls.");
  const Counts::Own one = counts.Take({{"tool", "a"}});
  EXPECT_EQ(Values(counts), (std::map<std::string, double>{{"a", 0}}));
  const auto families = counts.Collect();
  EXPECT_EQ(families.front().name, "calls_total");
  EXPECT_EQ(families.front().help, "Calls.");
  EXPECT_EQ(families.front().type, prometheus::MetricType::Counter);
}

TEST(ShardedCounter, WhatThreadsCountIsAddedUp) {
  constexpr int kThreads = 4, kTimes = 10'000;
  Counts counts("calls_total", "Calls.");
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([own = counts.Take({{"tool", "a"}})] {
      for (int k = 0; k < kTimes; ++k) own->Increment();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Counts::Own other = counts.Take({{"tool", "b"}});
  other->Increment();
  EXPECT_EQ(Values(counts), (std::map<std::string, double>{{"a", kThreads * kTimes}, {"b", 1}}));
}

// With each reload of a policy a thread gives its cells back and takes others.
TEST(ShardedCounter, NothingIsLostWithACellThatIsGivenBackAndTheNextOneGoesOnFromThere) {
  Counts counts("calls_total", "Calls.");
  OwnCount* first = nullptr;
  for (int reload = 0; reload < 3; ++reload) {
    const Counts::Own own = counts.Take({{"tool", "a"}});
    if (first == nullptr) first = own.get();
    EXPECT_EQ(own.get(), first);
    own->Increment();
  }
  EXPECT_EQ(Values(counts), (std::map<std::string, double>{{"a", 3}}));
}

TEST(ShardedCounter, NobodyGetsTheCellOfAnother) {
  Counts counts("calls_total", "Calls.");
  Counts::Own one = counts.Take({{"tool", "a"}});
  const Counts::Own two = counts.Take({{"tool", "a"}});
  EXPECT_NE(one.get(), two.get());
  const OwnCount* const given_back = one.get();
  one.reset();
  EXPECT_EQ(counts.Take({{"tool", "a"}}).get(), given_back);
}

}  // namespace
}  // namespace recourse::own_series_test
