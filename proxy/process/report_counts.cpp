#include "proxy/process/report_counts.h"

#include <algorithm>
#include <iterator>

namespace recourse {
namespace {

std::uint64_t ReplaysOf(const Metrics& metrics) {
  const auto is_replay = [](const auto& label) {
    return label.name == "result" && label.value == kReplayed;
  };
  double replays = 0;
  for (const auto& family : metrics.idempotency.Collect()) {
    for (const auto& metric : family.metric) {
      if (std::ranges::any_of(metric.label, is_replay)) replays += metric.counter.value;
    }
  }
  return static_cast<std::uint64_t>(replays);
}

}  // namespace

AdminApi::Counts CountsOf(const std::vector<std::unique_ptr<Worker>>& workers,
                          const Metrics& metrics, const Observer& observer) {
  AdminApi::Counts counts;
  counts.not_recorded = metrics.ObservedDropped();
  counts.replays = ReplaysOf(metrics);
  counts.flow_counts = metrics.WritesByFlow();
  std::vector<ShapeCount> unlisted, refused;
  for (const auto& worker : workers) {
    counts.unlisted_other += worker->unlisted.other();
    counts.refused_other += worker->refused.other();
    std::ranges::move(worker->unlisted.Read(), std::back_inserter(unlisted));
    std::ranges::move(worker->refused.Read(), std::back_inserter(refused));
  }
  counts.unlisted_reads = UnlistedReadsOf(unlisted);
  counts.refused = RefusedOf(refused);
  counts.differences = observer.differences().Read();
  counts.differences_other = observer.differences().other();
  return counts;
}

}  // namespace recourse
