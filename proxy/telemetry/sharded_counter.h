// Metrics of the hot path. Each thread counts in cells of its own, which costs neither a lock nor a
// locked instruction; a scrape adds up those of all threads.
#pragma once

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "proxy/telemetry/metric_table.h"

namespace recourse {

// A number that one thread at a time adds to, and that any thread reads.
class Tally {
 public:
  void Add(std::uint64_t more = 1) { value_.store(Read() + more, std::memory_order_relaxed); }
  std::uint64_t Read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Two threads' cells never share a line of the processor's cache.
inline constexpr std::size_t kCellAlignment = 64;

class alignas(kCellAlignment) OwnCount {
 public:
  static constexpr prometheus::MetricType kType = prometheus::MetricType::Counter;
  void Increment() { tally_.Add(); }
  void AddTo(prometheus::ClientMetric& metric) const {
    metric.counter.value += static_cast<double>(tally_.Read());
  }

 private:
  Tally tally_;
};

// One family of series, by labels. Thread-safe.
template <class Cell>
class ShardedCounter final : public prometheus::Collectable {
 private:
  struct Series {
    std::vector<std::unique_ptr<Cell>> cells;
    std::vector<Cell*> free;  // of those; has room for all
  };

 public:
  using Labels = std::map<std::string, std::string>;
  struct Return {
    ShardedCounter* family;
    Series* series;
    void operator()(Cell* cell) const {
      const std::lock_guard lock(family->mutex_);
      series->free.push_back(cell);
    }
  };
  // For one thread at a time. What it counted stays when it is given back, and whoever takes it
  // next goes on from there.
  using Own = std::unique_ptr<Cell, Return>;

  explicit ShardedCounter(const MetricSpec& spec)
      : ShardedCounter(std::string(spec.name), spec.help()) {}
  ShardedCounter(std::string name, std::string help)
      : name_(std::move(name)), help_(std::move(help)) {}

  // A cell of the series with these labels, which begins with its first one. Given back before the
  // family goes.
  Own Take(const Labels& labels) {
    const std::lock_guard lock(mutex_);
    Series& series = all_[labels];
    if (series.free.empty()) {
      series.cells.push_back(std::make_unique<Cell>());
      series.free.reserve(series.cells.size());
      return Own(series.cells.back().get(), Return{this, &series});
    }
    Cell* const cell = series.free.back();
    series.free.pop_back();
    return Own(cell, Return{this, &series});
  }

  // Empty as long as nothing was taken.
  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    if (all_.empty()) return {};
    prometheus::MetricFamily family{name_, help_, Cell::kType, {}};
    for (const auto& [labels, series] : all_) {
      prometheus::ClientMetric metric;
      for (const auto& [name, value] : labels) metric.label.push_back({name, value});
      for (const auto& cell : series.cells) cell->AddTo(metric);
      family.metric.push_back(std::move(metric));
    }
    return {std::move(family)};
  }

 private:
  const std::string name_, help_;
  mutable std::mutex mutex_;
  std::map<Labels, Series> all_;  // guarded by mutex_
};

using Counts = ShardedCounter<OwnCount>;

}  // namespace recourse
