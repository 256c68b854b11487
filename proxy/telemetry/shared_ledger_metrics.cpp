#include "proxy/telemetry/shared_ledger_metrics.h"

#include <string>
#include <utility>

#include "filters/ledger/shared_view.h"
#include "proxy/telemetry/metric_table.h"

namespace recourse {
namespace {

prometheus::MetricFamily FamilyOf(const char* name) {
  const MetricSpec& spec = MetricNamed(name);
  return {std::string(spec.name), spec.help(), spec.type, {}};
}

prometheus::MetricFamily CounterOf(const char* name, std::uint64_t value) {
  prometheus::MetricFamily family = FamilyOf(name);
  family.metric.emplace_back().counter.value = static_cast<double>(value);
  return family;
}

prometheus::MetricFamily GaugeOf(const char* name, std::uint64_t value) {
  prometheus::MetricFamily family = FamilyOf(name);
  family.metric.emplace_back().gauge.value = static_cast<double>(value);
  return family;
}

}  // namespace

void AddSharedLedger(Ledger& ledger, std::vector<prometheus::MetricFamily>& families) {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&ledger);
  SharedLedgerCounts counts = shared != nullptr ? shared->SharedCounts() : SharedLedgerCounts();
  families.push_back(GaugeOf("recourse_ledger_up", counts.is_up ? 1 : 0));
  prometheus::MetricFamily retries = FamilyOf("recourse_ledger_retries_total");
  for (const char* usual : {"22012", "40001", "40P01"}) counts.retries.try_emplace(usual);
  for (const auto& [sqlstate, count] : counts.retries) {
    prometheus::ClientMetric& metric = retries.metric.emplace_back();
    metric.label.push_back({"sqlstate", sqlstate});
    metric.counter.value = static_cast<double>(count);
  }
  families.push_back(std::move(retries));
  families.push_back(CounterOf("recourse_ledger_in_doubt_total", counts.in_doubt));
  families.push_back(CounterOf("recourse_ledger_takeovers_total", counts.takeovers));
  families.push_back(CounterOf("recourse_ledger_fenced_total", counts.fenced));
  families.push_back(CounterOf("recourse_ledger_second_effects_total", counts.second_effects));
  families.push_back(GaugeOf("recourse_ledger_orphaned_work", counts.orphaned_work));
  families.push_back(GaugeOf("recourse_ledger_async_standbys", counts.asynchronous_standbys));
}

}  // namespace recourse
