// Counts durations in buckets that grow with the value, so that every percentile is right to 0.2 %
// from one microsecond to minutes, in 160 KiB.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace recourse::bench {

class Histogram {
 public:
  void Add(std::uint64_t nanoseconds) {
    ++counts_[Bucket(nanoseconds)];
    ++total_;
  }

  void Add(const Histogram& other) {
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      counts_[bucket] += other.counts_[bucket];
    }
    total_ += other.total_;
  }

  std::uint64_t total() const { return total_; }

  // The smallest value, in nanoseconds, that `share` (0 to 1) of the samples do not exceed.
  std::uint64_t Percentile(double share) const {
    const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total_));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (seen > wanted) return UpperEdge(bucket);
    }
    return 0;
  }

 private:
  // 512 steps per power of two.
  static constexpr int kStepBits = 9;
  static constexpr std::size_t kSteps = std::size_t{1} << kStepBits;

  static std::size_t Bucket(std::uint64_t value) {
    if (value < kSteps) return value;
    const int shift = static_cast<int>(std::bit_width(value)) - kStepBits - 1;
    const std::size_t bucket = static_cast<std::size_t>(shift + 1) * kSteps +
                               static_cast<std::size_t>((value >> shift) - kSteps);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }

  static std::uint64_t UpperEdge(std::size_t bucket) {
    if (bucket < kSteps) return bucket;
    const std::size_t shift = bucket / kSteps - 1;
    return ((kSteps + bucket % kSteps + 1) << shift) - 1;
  }

  static constexpr std::size_t kBuckets = 40 * kSteps;
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace recourse::bench
