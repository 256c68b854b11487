#include "proxy/server/latency.h"

#include <gtest/gtest.h>

namespace recourse {
namespace {

using std::chrono::nanoseconds;

// The first bucket that holds something.
double BucketOf(std::int64_t value) {
  Latency latency;
  latency.Observe(nanoseconds(value));
  for (const auto& bucket : latency.Read().bucket) {
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
  EXPECT_EQ(latency.Read().sample_count, 3U);
  EXPECT_DOUBLE_EQ(latency.Read().sample_sum, 0.001521);
  EXPECT_EQ(latency.Read().bucket.back().cumulative_count, 3U);
}

}  // namespace
}  // namespace recourse
