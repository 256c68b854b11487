// Histograms of durations that one request can afford several of: no lock, no floating point.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace recourse {

class Latency {
 public:
  // Upper bounds of the buckets in nanoseconds, 10 us to 60 s; one more bucket has no bound.
  static constexpr std::array<std::int64_t, 20> kBounds{
      10'000,        50'000,        100'000,        250'000,        500'000,
      1'000'000,     2'500'000,     5'000'000,      10'000'000,     25'000'000,
      50'000'000,    100'000'000,   250'000'000,    500'000'000,    1'000'000'000,
      2'500'000'000, 5'000'000'000, 10'000'000'000, 30'000'000'000, 60'000'000'000};

  // Thread-safe.
  void Observe(std::chrono::nanoseconds took) {
    const std::int64_t value = std::max<std::int64_t>(took.count(), 0);
    // No bucket before this one can hold a value of so many bits; few more are looked at.
    std::size_t bucket =
        kFirst[static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(value)))];
    while (bucket < kBounds.size() && kBounds[bucket] < value) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<std::uint64_t>(value), std::memory_order_relaxed);
  }
  prometheus::ClientMetric::Histogram Read() const;

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

  std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> counts_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

// One family of them, by labels. Thread-safe.
class Latencies final : public prometheus::Collectable {
 public:
  using Labels = std::map<std::string, std::string>;

  Latencies(std::string name, std::string help) : name_(std::move(name)), help_(std::move(help)) {}

  // The one with these labels, made when there is none. Lives as long as the family.
  Latency& Add(const Labels& labels);
  // Empty as long as nothing was added.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::string name_, help_;
  mutable std::mutex mutex_;
  std::map<Labels, std::unique_ptr<Latency>> all_;  // guarded by mutex_
};

}  // namespace recourse
