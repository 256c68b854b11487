#include "proxy/telemetry/shared_ledger_metrics.h"

#include <cstdint>
#include <string>
#include <utility>

#include "filters/ledger/shared_view.h"

namespace recourse {
namespace {

prometheus::MetricFamily CounterOf(const char* name, const char* help, std::uint64_t value) {
  prometheus::ClientMetric metric;
  metric.counter.value = static_cast<double>(value);
  return {name, help, prometheus::MetricType::Counter, {std::move(metric)}};
}

}  // namespace

void AddSharedLedger(Ledger& ledger, std::vector<prometheus::MetricFamily>& families) {
  auto* const counter = dynamic_cast<SharedLedgerView*>(&ledger);
  SharedLedgerCounts counts = counter != nullptr ? counter->SharedCounts() : SharedLedgerCounts();
  prometheus::ClientMetric up;
  up.gauge.value = counts.is_up ? 1 : 0;
  families.push_back({"recourse_ledger_up",
                      "0 while the ledger's database does not answer.",
                      prometheus::MetricType::Gauge,
                      {std::move(up)}});
  prometheus::MetricFamily retries{"recourse_ledger_retries_total",
                                   "Batches that met another process's and were decided anew.",
                                   prometheus::MetricType::Counter,
                                   {}};
  for (const char* usual : {"22012", "40001", "40P01"}) counts.retries.try_emplace(usual);
  for (const auto& [sqlstate, count] : counts.retries) {
    prometheus::ClientMetric& metric = retries.metric.emplace_back();
    metric.label.push_back({"sqlstate", sqlstate});
    metric.counter.value = static_cast<double>(count);
  }
  families.push_back(std::move(retries));
  families.push_back(CounterOf("recourse_ledger_in_doubt_total", "Batches whose answer was lost.",
                               counts.in_doubt));
  families.push_back(CounterOf("recourse_ledger_takeovers_total",
                               "Dead processes whose work this one took over.", counts.takeovers));
  families.push_back(CounterOf("recourse_ledger_fenced_total",
                               "Times that this process was taken for dead.", counts.fenced));
}

}  // namespace recourse
