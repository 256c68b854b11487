#include "proxy/telemetry/exemplars.h"

#include <algorithm>
#include <cstddef>

namespace recourse {

void Exemplars::Note(const std::string& tool, const TraceIdText& trace, const SpanIdText& span,
                     std::chrono::nanoseconds took) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const auto bound = std::ranges::lower_bound(Latency::kBounds, took.count());
  const auto bucket = static_cast<std::size_t>(bound - Latency::kBounds.begin());
  by_tool_[tool].at(bucket) = {trace, span, static_cast<double>(took.count()) / 1e9};
}

std::map<std::string, BucketExemplars> Exemplars::All() const {
  const std::lock_guard lock(mutex_);
  return by_tool_;
}

}  // namespace recourse
