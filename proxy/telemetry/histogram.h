// Histograms of durations that one request can afford several of: no lock, no floating point.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>

#include "proxy/telemetry/sharded_counter.h"

namespace recourse {

class alignas(kCellAlignment) Latency {
 public:
  static constexpr prometheus::MetricType kType = prometheus::MetricType::Histogram;
  // Upper bounds of the buckets in nanoseconds, 10 us to 60 s; one more bucket has no bound.
  static constexpr std::array<std::int64_t, 20> kBounds{
      10'000,        50'000,        100'000,        250'000,        500'000,
      1'000'000,     2'500'000,     5'000'000,      10'000'000,     25'000'000,
      50'000'000,    100'000'000,   250'000'000,    500'000'000,    1'000'000'000,
      2'500'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000, 60'000'000'000};

  // One thread at a time.
  void Observe(std::chrono::nanoseconds took) {
    const std::int64_t value = std::max<std::int64_t>(took.count(), 0);
    // No bucket before this one can hold a value of so many bits; few more are looked at.
    std::size_t bucket =
        kFirst[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(value)))];
    while (bucket < kBounds.size() && kBounds[bucket] < value) ++bucket;
    counts_[bucket].Add();
    sum_ns_.Add(static_cast<std::uint64_t>(value));
  }
  // Thread-safe.
  void AddTo(prometheus::ClientMetric& metric) const;

 private:
  // By the number of bits of a value: the bucket of the smallest such value.
  static constexpr std::array<std::uint8_t, 65> kFirst = [] {
    std::array<std::uint8_t, 65> first{};
    for (std::size_t bits = 1; bits < 65; ++bits) {
      const std::uint64_t smallest = std::uint64_t{1} << (bits - 1);
      std::uint8_t bucket = 0;
      while (bucket < kBounds.size() && static_cast<std::uint64_t>(kBounds[bucket]) < smallest) {
        ++bucket;
      }
      first[bits] = bucket;
    }
    return first;
  }();

  std::array<Tally, kBounds.size() + 1> counts_{};
  Tally sum_ns_;
};

using Latencies = ShardedCounter<Latency>;

}  // namespace recourse
