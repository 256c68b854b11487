#include "proxy/telemetry/histogram.h"

#include <limits>

namespace recourse {

void Latency::AddTo(prometheus::ClientMetric& metric) const {
  prometheus::ClientMetric::Histogram& sum = metric.histogram;
  sum.bucket.resize(counts_.size());
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_.at(i).Read();
    sum.bucket[i].cumulative_count += count;
    sum.bucket[i].upper_bound = i < kBounds.size() ? static_cast<double>(kBounds.at(i)) / 1e9
                                                   : std::numeric_limits<double>::infinity();
  }
  sum.sample_count += count;
  sum.sample_sum += static_cast<double>(sum_ns_.Read()) / 1e9;
}

}  // namespace recourse
