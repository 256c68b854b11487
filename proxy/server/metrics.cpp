#include "proxy/server/metrics.h"

#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <fstream>

#include "filters/ledger/ledger.h"

namespace recourse {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kRequestBuckets{
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};
const prometheus::Histogram::BucketBoundaries kCommitBuckets{
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5};

constexpr std::array<std::string_view, 8> kMethodNames{"GET",   "HEAD",   "POST",    "PUT",
                                                       "PATCH", "DELETE", "OPTIONS", "other"};

std::size_t MethodIndex(std::string_view method) {
  std::size_t index = 0;
  while (index + 1 < kMethodNames.size() && kMethodNames[index] != method) ++index;
  return index;
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

template <class Builder>
auto& Family(Builder builder, const char* name, const char* help, prometheus::Registry& registry) {
  return builder.Name(name).Help(help).Register(registry);
}

}  // namespace

Metrics::Metrics(const Policy& policy, WallTime started)
    : requests(
          Family(BuildCounter(), "recourse_http_requests_total", "Requests answered.", registry)),
      durations(Family(BuildHistogram(), "recourse_http_request_duration_seconds",
                       "From the request's head to the end of its answer.", registry)),
      attempts(Family(BuildCounter(), "recourse_upstream_attempts_total",
                      "Calls tried at a backend, by what came of them.", registry)),
      idempotency(Family(BuildCounter(), "recourse_idempotency_total",
                         "Writes, by what their key said.", registry)),
      parse_errors(Family(BuildCounter(), "recourse_parse_errors_total",
                          "Messages that could not be read.", registry)),
      rejections(Family(BuildCounter(), "recourse_overload_rejections_total",
                        "Requests refused because a bound was reached.", registry)),
      read_retries(Family(BuildCounter(), "recourse_retries_total",
                          "Reads that were sent again on a new connection.", registry)
                       .Add({{"effect", "read"}})),
      connections(Family(BuildGauge(), "recourse_connections", "Open client connections.", registry)
                      .Add({{"side", "client"}})),
      write_flows(
          Family(BuildGauge(), "recourse_writes_in_flight", "Writes being worked on.", registry)
              .Add({})),
      commit_seconds(Family(BuildHistogram(), "recourse_store_commit_duration_seconds",
                            "One durable commit of the ledger.", registry)
                         .Add({}, kCommitBuckets)),
      commit_rows(Family(BuildCounter(), "recourse_store_rows_total",
                         "Rows made durable; divide by commits for the batch size.", registry)
                      .Add({})),
      operations_(Family(BuildGauge(), "recourse_events",
                         "Operations that are not settled, by phase.", registry)),
      oldest_pending_(Family(BuildGauge(), "recourse_event_oldest_pending_timestamp_seconds",
                             "When the oldest unsettled operation began; 0 when there is none.",
                             registry)
                          .Add({})),
      used_bytes_(
          Family(BuildGauge(), "recourse_store_map_used_bytes", "Ledger bytes in use.", registry)
              .Add({})),
      map_bytes_(
          Family(BuildGauge(), "recourse_store_map_size_bytes", "Ledger size limit.", registry)
              .Add({})),
      latched_(Family(BuildGauge(), "recourse_store_latched",
                      "1 after a failed commit: writes are refused until restart.", registry)
                   .Add({})),
      log_dropped_(Family(BuildGauge(), "recourse_access_log_lines_dropped",
                          "Access log lines dropped because the log was too slow.", registry)
                       .Add({})),
      resident_(Family(BuildGauge(), "process_resident_memory_bytes", "Resident memory.", registry)
                    .Add({})) {
  Family(BuildGauge(), "recourse_build_info", "Version of the running binary.", registry)
      .Add({{"version", RECOURSE_VERSION}})
      .Set(1);
  Family(BuildGauge(), "recourse_policy_info", "Policy in force.", registry)
      .Add({{"hash", policy.version}})
      .Set(1);
  Family(BuildGauge(), "process_start_time_seconds", "Start of the process.", registry)
      .Add({})
      .Set(static_cast<double>(ToUnixMillis(started)) / 1000);
}

std::string Metrics::Scrape(Ledger& ledger, std::uint64_t log_lines_dropped) {
  const LedgerStats stats = ledger.Stats();
  operations_.Add({{"phase", "UNCERTAIN"}}).Set(static_cast<double>(stats.uncertain));
  operations_.Add({{"phase", "DISPATCHING"}}).Set(static_cast<double>(stats.running));
  oldest_pending_.Set(static_cast<double>(stats.oldest_pending_ms) / 1000);
  used_bytes_.Set(static_cast<double>(stats.used_bytes));
  map_bytes_.Set(static_cast<double>(stats.map_bytes));
  latched_.Set(stats.latched ? 1 : 0);
  log_dropped_.Set(static_cast<double>(log_lines_dropped));
  resident_.Set(ResidentBytes());
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

RequestMetrics::RequestMetrics(Metrics& metrics, const Policy& policy)
    : metrics_(metrics),
      first_tool_(policy.tools.data()),
      first_backend_(policy.backends.data()),
      tools_(policy.tools.size() + 1) {
  for (const Backend& backend : policy.backends) {
    attempts_ok_.push_back(&metrics.attempts.Add({{"backend", backend.name}, {"outcome", "ok"}}));
  }
  for (std::size_t i = 0; i < tools_.size(); ++i) {
    const bool listed = i < policy.tools.size();
    tools_[i].name = listed ? policy.tools[i].name : "unlisted";
    tools_[i].effect = !listed                                   ? "unlisted"
                       : policy.tools[i].effect == Effect::kRead ? "read"
                                                                 : "write";
  }
}

void RequestMetrics::CountAttempt(const Backend* backend, std::string_view outcome) {
  if (outcome == "ok")
    return attempts_ok_[static_cast<std::size_t>(backend - first_backend_)]->Increment();
  metrics_.attempts.Add({{"backend", backend->name}, {"outcome", std::string(outcome)}})
      .Increment();
}

void RequestMetrics::Count(const Tool* tool, std::string_view method, int status, double seconds) {
  PerTool& entry =
      tool == nullptr ? tools_.back() : tools_[static_cast<std::size_t>(tool - first_tool_)];
  if (entry.duration == nullptr) {
    entry.duration =
        &metrics_.durations.Add({{"tool", entry.name}, {"effect", entry.effect}}, kRequestBuckets);
  }
  entry.duration->Observe(seconds);
  const std::size_t index = MethodIndex(method);
  for (const auto& [code, counter] : entry.codes[index]) {
    if (code == status) return counter->Increment();
  }
  prometheus::Counter& counter =
      metrics_.requests.Add({{"tool", entry.name},
                             {"effect", entry.effect},
                             {"method", std::string(kMethodNames[index])},
                             {"code", std::to_string(status)}});
  counter.Increment();
  entry.codes[index].emplace_back(status, &counter);
}

}  // namespace recourse
