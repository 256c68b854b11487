#include "proxy/telemetry/histogram.h"

#include <gtest/gtest.h>

#include <limits>

namespace recourse::latency_test {
namespace {

using std::chrono::nanoseconds;

prometheus::ClientMetric::Histogram Read(const Latency& latency) {
  prometheus::ClientMetric metric;
  latency.AddTo(metric);
  return metric.histogram;
}

// The first bucket that holds something.
double BucketOf(std::int64_t value) {
  Latency latency;
  latency.Observe(nanoseconds(value));
  for (const auto& bucket : Read(latency).bucket) {
    if (bucket.cumulative_count > 0) return bucket.upper_bound;
  }
  return -1;
}

TEST(Latency, AValueFallsIntoTheFirstBucketThatItIsNotAbove) {
  for (const std::int64_t bound : Latency::kBounds) {
    const double seconds = static_cast<double>(bound) / 1e9;
    EXPECT_EQ(BucketOf(bound), seconds) << bound;
    EXPECT_EQ(BucketOf(bound - 1), seconds) << bound;
    EXPECT_GT(BucketOf(bound + 1), seconds) << bound;
  }
  EXPECT_EQ(BucketOf(0), 1e-5);
  EXPECT_EQ(BucketOf(-5), 1e-5);
  EXPECT_EQ(BucketOf(Latency::kBounds.back() * 1'000), std::numeric_limits<double>::infinity());
}

TEST(Latency, TellsTheSumAndTheCountOfAll) {
  Latency latency;
  for (const std::int64_t value : {1'000, 20'000, 1'500'000}) latency.Observe(nanoseconds(value));
  EXPECT_EQ(Read(latency).sample_count, 3U);
  EXPECT_DOUBLE_EQ(Read(latency).sample_sum, 0.001521);
  EXPECT_EQ(Read(latency).bucket.back().cumulative_count, 3U);
}

TEST(Latency, SeveralMakeOneHistogram) {
  Latency one, other;
  one.Observe(nanoseconds(20'000));
  other.Observe(nanoseconds(20'000));
  other.Observe(nanoseconds(1'500'000));
  prometheus::ClientMetric metric;
  one.AddTo(metric);
  other.AddTo(metric);
  EXPECT_EQ(metric.histogram.bucket.size(), Latency::kBounds.size() + 1);
  EXPECT_EQ(metric.histogram.bucket[0].cumulative_count, 0U);
  EXPECT_EQ(metric.histogram.bucket[1].cumulative_count, 2U);
  EXPECT_EQ(metric.histogram.bucket.back().cumulative_count, 3U);
  EXPECT_EQ(metric.histogram.sample_count, 3U);
  EXPECT_DOUBLE_EQ(metric.histogram.sample_sum, 0.00154);
}

}  // namespace
}  // namespace recourse::latency_test
