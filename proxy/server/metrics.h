// Prometheus metrics (kubernetes.md e.2). Labels come from the policy or from fixed sets only.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/policy.h"
#include "proxy/base/clock.h"

namespace recourse {

class Ledger;

class Metrics {
 public:
  Metrics(const Policy& policy, WallTime started);

  // Text format 0.0.4. Thread-safe.
  std::string Scrape(Ledger& ledger, std::uint64_t log_lines_dropped);

  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests;
  prometheus::Family<prometheus::Histogram>& durations;
  prometheus::Family<prometheus::Counter>& attempts;
  prometheus::Family<prometheus::Counter>& idempotency;
  prometheus::Family<prometheus::Counter>& parse_errors;
  prometheus::Family<prometheus::Counter>& rejections;
  prometheus::Counter& read_retries;
  prometheus::Gauge& connections;
  prometheus::Gauge& write_flows;
  prometheus::Histogram& commit_seconds;
  prometheus::Counter& commit_rows;

 private:
  prometheus::Family<prometheus::Gauge>& operations_;
  prometheus::Gauge& oldest_pending_;
  prometheus::Gauge& used_bytes_;
  prometheus::Gauge& map_bytes_;
  prometheus::Gauge& latched_;
  prometheus::Gauge& log_dropped_;
  prometheus::Gauge& resident_;
};

// The counters of one I/O thread, looked up once and then found by index: a label lookup per
// request would cost more than the rest of its bookkeeping. Not thread-safe.
class RequestMetrics {
 public:
  RequestMetrics(Metrics& metrics, const Policy& policy);

  // `tool` nullptr: unlisted.
  void Count(const Tool* tool, std::string_view method, int status, double seconds);
  // A call that was tried at a backend; `outcome` is "ok" or an error's slug.
  void CountAttempt(const Backend* backend, std::string_view outcome);

 private:
  static constexpr std::size_t kMethods = 8;
  struct PerTool {
    std::string name, effect;
    prometheus::Histogram* duration = nullptr;
    std::array<std::vector<std::pair<int, prometheus::Counter*>>, kMethods> codes;
  };
  Metrics& metrics_;
  const Tool* first_tool_;
  const Backend* first_backend_;
  std::vector<prometheus::Counter*> attempts_ok_;  // by backend
  std::vector<PerTool> tools_;                     // the last one is for unlisted calls
};

}  // namespace recourse
