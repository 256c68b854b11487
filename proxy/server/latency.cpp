#include "proxy/server/latency.h"

#include <limits>
#include <utility>

namespace recourse {

prometheus::ClientMetric::Histogram Latency::Read() const {
  prometheus::ClientMetric::Histogram read;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    read.sample_count += counts_.at(i).load(std::memory_order_relaxed);
    const double bound = i < kBounds.size() ? static_cast<double>(kBounds.at(i)) / 1e9
                                            : std::numeric_limits<double>::infinity();
    read.bucket.push_back({read.sample_count, bound});
  }
  read.sample_sum = static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) / 1e9;
  return read;
}

Latency& Latencies::Add(const Labels& labels) {
  const std::lock_guard lock(mutex_);
  auto& latency = all_[labels];
  if (latency == nullptr) latency = std::make_unique<Latency>();
  return *latency;
}

std::vector<prometheus::MetricFamily> Latencies::Collect() const {
  const std::lock_guard lock(mutex_);
  if (all_.empty()) return {};
  prometheus::MetricFamily family{name_, help_, prometheus::MetricType::Histogram, {}};
  for (const auto& [labels, latency] : all_) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : labels) metric.label.push_back({name, value});
    metric.histogram = latency->Read();
    family.metric.push_back(std::move(metric));
  }
  return {std::move(family)};
}

}  // namespace recourse
