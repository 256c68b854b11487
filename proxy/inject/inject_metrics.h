// What an injector counts.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <chrono>
#include <string>

#include "proxy/base/clock.h"
#include "proxy/inject/admission_review.h"

namespace recourse {

// Thread-safe.
class InjectMetrics {
 public:
  explicit InjectMetrics(WallTime started);

  void Count(ReviewResult result, std::size_t warnings, std::chrono::nanoseconds took);
  enum class Reload : std::uint8_t { kReloaded, kRefused };
  void CountTemplate(Reload result);

  // The API server was asked in vain.
  void CountApiFailure() { api_failures_.Increment(); }

  // The certificate that is shown from now on.
  void CertificateInForce(WallTime end);

  // Text format 0.0.4.
  std::string Scrape();

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& reviews_;
  std::array<prometheus::Counter*, kReviewResultCount> by_result_{};
  prometheus::Counter& warnings_;
  prometheus::Histogram& durations_;
  prometheus::Counter& api_failures_;
  prometheus::Counter *reloaded_ = nullptr, *refused_ = nullptr;
  prometheus::Gauge& certificate_end_;
};

}  // namespace recourse
