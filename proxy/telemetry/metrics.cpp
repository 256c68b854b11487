#include "proxy/telemetry/metrics.h"

#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "filters/ledger/rules/quotas.h"
#include "proxy/config/build_commit.h"
#include "proxy/telemetry/metric_table.h"
#include "proxy/telemetry/open_metrics.h"
#include "proxy/telemetry/request_record.h"
#include "proxy/telemetry/shared_ledger_metrics.h"

namespace recourse {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

constexpr std::string_view kInterceptionResults[] = {
    "ok",     "unused", "untrusted",      "version", "protocol", "name",
    "closed", "slow",   "no_certificate", "crowded", "other"};

const prometheus::Histogram::BucketBoundaries kWaitBuckets{1,   5,   15,    30,    60,     120,
                                                           300, 600, 1'800, 3'600, 14'400, 86'400};
const prometheus::Histogram::BucketBoundaries kCommitBuckets{
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5};

// Of a shared ledger its database counts them, for all processes together.
constexpr std::string_view kOfAllProcesses[] = {"recourse_events",
                                                "recourse_event_oldest_pending_timestamp_seconds",
                                                "recourse_store_map_used_bytes",
                                                "recourse_flows",
                                                "recourse_flows_parked",
                                                "recourse_flows_stopped",
                                                "recourse_flows_parked_oldest_timestamp_seconds",
                                                "recourse_approvals_pending"};

constexpr const char* kDurations = "recourse_http_request_duration_seconds";

constexpr std::array<std::string_view, 9> kMethodNames{
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "other"};

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

double OpenFiles() {
  std::error_code failed;
  double count = -1;  // the one that reads the directory
  for (std::filesystem::directory_iterator at("/proc/self/fd", failed), end; !failed && at != end;
       at.increment(failed)) {
    ++count;
  }
  return count;
}

double MostFiles() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur) : 0;
}

double CpuSeconds() {
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

auto& Family(auto builder, std::string_view name, prometheus::Registry& registry) {
  return builder.Name(std::string(name)).Help(MetricNamed(name).help()).Register(registry);
}

// Without series.
prometheus::MetricFamily Empty(std::string_view name) {
  const MetricSpec& spec = MetricNamed(name);
  return {std::string(name), spec.help(), spec.type, {}};
}

// A counter whose value somebody else keeps.
prometheus::MetricFamily Told(std::string_view name, double value) {
  prometheus::MetricFamily family = Empty(name);
  family.metric.emplace_back().counter.value = value;
  return family;
}

prometheus::MetricFamily QuotaRefusals(const LedgerStats& stats) {
  prometheus::MetricFamily family = Empty("recourse_quota_refusals_total");
  for (int i = 0; i < kQuotaKindCount; ++i) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label.push_back({"quota", std::string(NameOf(static_cast<QuotaKind>(i)))});
    metric.counter.value =
        static_cast<double>(stats.quota_refusals.at(static_cast<std::size_t>(i)));
  }
  return family;
}

}  // namespace

Metrics::Metrics(WallTime started)
    : requests(MetricNamed("recourse_http_requests_total")),
      attempts(MetricNamed("recourse_upstream_attempts_total")),
      arrivals(MetricNamed("recourse_arrivals_total")),
      durations(MetricNamed(kDurations)),
      backend_durations(MetricNamed("recourse_upstream_request_duration_seconds")),
      overheads(MetricNamed("recourse_overhead_seconds")),
      turns(MetricNamed("recourse_io_turn_seconds")),
      idempotency(Family(BuildCounter(), "recourse_idempotency_total", registry)),
      observed(Family(BuildCounter(), "recourse_observed_total", registry)),
      observed_dropped(Family(BuildCounter(), "recourse_observed_dropped_total", registry)),
      refusals_to_come(Family(BuildCounter(), "recourse_refusals_to_come_total", registry)),
      refs_missing(Family(BuildCounter(), "recourse_refs_missing_total", registry)),
      state_replays(Family(BuildCounter(), "recourse_state_replays_total", registry)),
      parse_errors(Family(BuildCounter(), "recourse_parse_errors_total", registry)),
      rejections(Family(BuildCounter(), "recourse_overload_rejections_total", registry)),
      mcp_tool_changes(Family(BuildCounter(), "recourse_mcp_tool_changes_total", registry)),
      redirected(Family(BuildCounter(), "recourse_redirected_connections_total", registry)),
      interceptions(Family(BuildCounter(), "recourse_interceptions_total", registry)),
      policy_reloads(Family(BuildCounter(), "recourse_policy_reloads_total", registry)),
      undos(Family(BuildCounter(), "recourse_undos_total", registry)),
      flows(Family(BuildCounter(), "recourse_flows_total", registry)),
      webhooks(Family(BuildCounter(), "recourse_webhooks_total", registry)),
      probes(Family(BuildCounter(), "recourse_probes_total", registry)),
      spans(Family(BuildCounter(), "recourse_trace_spans_total", registry)),
      approvals(Family(BuildCounter(), "recourse_approvals_total", registry)),
      approval_wait(Family(BuildHistogram(), "recourse_approval_wait_seconds", registry)
                        .Add({}, kWaitBuckets)),
      orphaned_operations(
          Family(BuildGauge(), "recourse_policy_orphaned_operations", registry).Add({})),
      read_retries(
          Family(BuildCounter(), "recourse_retries_total", registry).Add({{"effect", "read"}})),
      write_retries(
          Family(BuildCounter(), "recourse_retries_total", registry).Add({{"effect", "write"}})),
      made_room(Family(BuildCounter(), "recourse_idle_connections_closed_total", registry).Add({})),
      connections_by_side(Family(BuildGauge(), "recourse_connections", registry)),
      connections(connections_by_side.Add({{"side", "client"}})),
      write_flows(Family(BuildGauge(), "recourse_writes_in_flight", registry).Add({})),
      large_bodies(Family(BuildGauge(), "recourse_large_bodies", registry).Add({})),
      tunnels(Family(BuildGauge(), "recourse_tunnels", registry).Add({})),
      tunnels_by_decision(Family(BuildCounter(), "recourse_tunnels_total", registry)),
      tunnels_opened(tunnels_by_decision.Add({{"by", "upgrade"}, {"decision", "opened"}})),
      tunnels_refused(tunnels_by_decision.Add({{"by", "upgrade"}, {"decision", "refused"}})),
      tunnel_bytes(Family(BuildCounter(), "recourse_tunnel_bytes_total", registry)),
      tunnel_bytes_to_backend(tunnel_bytes.Add({{"to", "backend"}})),
      tunnel_bytes_to_client(tunnel_bytes.Add({{"to", "client"}})),
      commit_seconds(Family(BuildHistogram(), "recourse_store_commit_duration_seconds", registry)
                         .Add({}, kCommitBuckets)),
      commit_rows(Family(BuildCounter(), "recourse_store_rows_total", registry).Add({})),
      flow_writes_(Family(BuildCounter(), "recourse_flow_writes_total", registry)),
      in_flows_(flow_writes_.Add({{"flow", "named"}})),
      alone_(flow_writes_.Add({{"flow", "own"}})),
      unknown_callers_(Family(BuildCounter(), "recourse_unknown_callers_total", registry)),
      nobodys_reads_(unknown_callers_.Add({{"effect", "read"}})),
      nobodys_writes_(unknown_callers_.Add({{"effect", "write"}})),
      operations_(Family(BuildGauge(), "recourse_events", registry)),
      oldest_pending_(
          Family(BuildGauge(), "recourse_event_oldest_pending_timestamp_seconds", registry)
              .Add({})),
      used_bytes_(Family(BuildGauge(), "recourse_store_map_used_bytes", registry).Add({})),
      map_bytes_(Family(BuildGauge(), "recourse_store_map_size_bytes", registry).Add({})),
      latched_(Family(BuildGauge(), "recourse_store_latched", registry).Add({})),
      policy_info_(Family(BuildGauge(), "recourse_policy_info", registry)),
      policy_loaded_(
          Family(BuildGauge(), "recourse_policy_last_reload_success_timestamp_seconds", registry)
              .Add({})) {
  const auto gauge = [this](std::string_view name) {
    return &Family(BuildGauge(), name, registry).Add({});
  };
  store_.free = gauge("recourse_store_free_bytes");
  store_.reserve = gauge("recourse_store_reserve_bytes");
  store_.full = gauge("recourse_store_full");
  store_.index_failing = gauge("recourse_store_index_failing");
  store_.index_rebuilt = gauge("recourse_store_index_rebuilt");
  store_.restored = gauge("recourse_store_restored");
  store_.rows = gauge("recourse_store_rows");
  store_.oldest_row = gauge("recourse_store_oldest_row_age_seconds");
  store_.lag = gauge("recourse_store_retention_lag_seconds");
  store_.tombstones = gauge("recourse_store_tombstones");
  store_.locked = gauge("recourse_store_locked_carried");
  auto& by_phase = Family(BuildGauge(), "recourse_flows", registry);
  flow_gauges_.open = &by_phase.Add({{"phase", "OPEN"}});
  flow_gauges_.breaking = &by_phase.Add({{"phase", "BREAKING"}});
  flow_gauges_.needs_human = &by_phase.Add({{"phase", "NEEDS_HUMAN"}});
  flow_gauges_.parked = gauge("recourse_flows_parked");
  flow_gauges_.stopped = gauge("recourse_flows_stopped");
  flow_gauges_.approvals = gauge("recourse_approvals_pending");
  flow_gauges_.parked_since = gauge("recourse_flows_parked_oldest_timestamp_seconds");
  auto& buffered = Family(BuildGauge(), "recourse_buffered_bytes", registry);
  process_.served_bytes = &buffered.Add({{"of", "writes"}});
  process_.observed_bytes = &buffered.Add({{"of", "observed"}});
  process_.call_memory = gauge("recourse_buffered_bytes_max");
  process_.resident = gauge("process_resident_memory_bytes");
  process_.open_fds = gauge("process_open_fds");
  process_.max_fds = gauge("process_max_fds");
  BeginSeries();
  Family(BuildGauge(), "recourse_build_info", registry)
      .Add({{"version", RECOURSE_VERSION}, {"commit", std::string(BuildCommit())}})
      .Set(1);
  Family(BuildGauge(), "process_start_time_seconds", registry)
      .Add({})
      .Set(static_cast<double>(ToUnixMillis(started)) / 1000);
}

// A series that began with its first event would have no increase to alert on.
void Metrics::BeginSeries() {
  for (const char* result : {"undone", "needs_human", "stopped"}) flows.Add({{"result", result}});
  for (const char* result :
       {"asked", "partly_approved", "approved", "rejected", "expired", "void"}) {
    approvals.Add({{"result", result}});
  }
  for (const char* decision : {"served", "opened", "refused", "failed", "would-refuse"}) {
    tunnels_by_decision.Add({{"by", "connect"}, {"decision", decision}});
  }
  for (const char* decision : {"opened", "refused", "failed", "would-refuse"}) {
    tunnels_by_decision.Add({{"by", "redirect"}, {"decision", decision}});
  }
  for (const char* result : {"taken", "failed"}) webhooks.Add({{"result", result}});
  for (const char* result : {"reloaded", "unchanged", "refused"}) {
    policy_reloads.Add({{"result", result}});
  }
  for (const char* result : {"exported", "refused", "dropped"}) spans.Add({{"result", result}});
  for (const std::string_view result : kInterceptionResults) {
    interceptions.Add({{"result", std::string(result)}});
  }
  for (const char* reason : {"writes", "memory", "large_bodies", "connections",
                             "connections_of_peer", "handshakes", "tls"}) {
    rejections.Add({{"reason", reason}});
  }
  for (const char* result :
       {"accepted", "direct", "loopback", "own-listener", "unknown-peer", "own-user"}) {
    redirected.Add({{"result", result}});
  }
}

// One series at a time: a label per version would grow without bound.
void Metrics::PolicyInForce(const std::string& version, WallTime when) {
  if (policy_in_force_ != nullptr) policy_info_.Remove(policy_in_force_);
  policy_in_force_ = &policy_info_.Add({{"hash", version}});
  policy_in_force_->Set(1);
  policy_loaded_.Set(static_cast<double>(ToUnixMillis(when)) / 1000);
}

std::string Metrics::Scrape(Ledger& ledger, const ScrapeFacts& facts, Format format) {
  const LedgerStats stats = ledger.Stats();
  operations_.Add({{"phase", "UNCERTAIN"}}).Set(static_cast<double>(stats.uncertain));
  operations_.Add({{"phase", "DISPATCHING"}}).Set(static_cast<double>(stats.running));
  oldest_pending_.Set(static_cast<double>(stats.oldest_pending_ms) / 1000);
  used_bytes_.Set(static_cast<double>(stats.used_bytes));
  map_bytes_.Set(static_cast<double>(stats.map_bytes));
  latched_.Set(stats.latched ? 1 : 0);
  store_.free->Set(static_cast<double>(stats.free_bytes));
  store_.reserve->Set(static_cast<double>(stats.reserve_bytes));
  store_.full->Set(stats.is_full ? 1 : 0);
  store_.index_failing->Set(stats.is_index_failing ? 1 : 0);
  store_.index_rebuilt->Set(stats.is_index_rebuilt ? 1 : 0);
  store_.restored->Set(stats.restored ? 1 : 0);
  store_.rows->Set(static_cast<double>(stats.rows));
  store_.oldest_row->Set(static_cast<double>(stats.oldest_row_ms) / 1000);
  store_.lag->Set(static_cast<double>(stats.retention_lag_ms) / 1000);
  store_.tombstones->Set(static_cast<double>(stats.tombstones));
  store_.locked->Set(static_cast<double>(stats.locked_carried));
  flow_gauges_.open->Set(static_cast<double>(stats.flows_open));
  flow_gauges_.breaking->Set(static_cast<double>(stats.flows_breaking));
  flow_gauges_.needs_human->Set(static_cast<double>(stats.flows_parked + stats.flows_stopped));
  flow_gauges_.stopped->Set(static_cast<double>(stats.flows_stopped));
  flow_gauges_.parked->Set(static_cast<double>(stats.flows_parked));
  flow_gauges_.approvals->Set(static_cast<double>(stats.approvals_pending));
  flow_gauges_.parked_since->Set(static_cast<double>(stats.flows_parked_since_ms) / 1000);
  connections_by_side.Add({{"side", "backend"}})
      .Set(static_cast<double>(facts.backend_connections));
  process_.served_bytes->Set(static_cast<double>(facts.served_bytes));
  process_.observed_bytes->Set(static_cast<double>(facts.observed_bytes));
  process_.call_memory->Set(static_cast<double>(facts.call_memory_bytes));
  process_.resident->Set(ResidentBytes());
  process_.open_fds->Set(OpenFiles());
  process_.max_fds->Set(MostFiles());
  auto families = registry.Collect();
  // What nobody knows would look as if there were none.
  if (stats.is_away && !stats.counted_ms) {
    std::erase_if(families, [](const prometheus::MetricFamily& family) {
      return std::ranges::find(kOfAllProcesses, family.name) != std::end(kOfAllProcesses);
    });
  }
  for (const prometheus::Collectable* own : std::initializer_list<const prometheus::Collectable*>{
           &requests, &attempts, &arrivals, &durations, &backend_durations, &overheads, &turns}) {
    for (auto& family : own->Collect()) families.push_back(std::move(family));
  }
  families.push_back(QuotaRefusals(stats));
  AddSharedLedger(ledger, families);
  families.push_back(Told("recourse_access_log_lines_dropped_total",
                          static_cast<double>(facts.log_lines_dropped)));
  families.push_back(Told("process_cpu_seconds_total", CpuSeconds()));
  if (format == Format::kOpenMetrics) {
    return OpenMetricsText(families, kDurations, exemplars.All());
  }
  return prometheus::TextSerializer().Serialize(families);
}

void Metrics::CountProbe(const std::string& tool, std::string_view result) {
  probes.Add({{"tool", tool}, {"result", std::string(result)}}).Increment();
}

void Metrics::CountRefusalToCome(std::string_view effect, std::string_view reason) {
  const std::string_view slug = reason.substr(0, reason.find_first_of(":;"));
  refusals_to_come.Add({{"effect", std::string(effect)}, {"reason", std::string(slug)}})
      .Increment();
}

std::uint64_t Metrics::ObservedDropped() const {
  double dropped = 0;
  for (const auto& family : observed_dropped.Collect()) {
    for (const auto& metric : family.metric) dropped += metric.counter.value;
  }
  return static_cast<std::uint64_t>(dropped);
}

FlowCounts Metrics::WritesByFlow() const {
  const auto alone = static_cast<std::uint64_t>(alone_.Value());
  return {alone + static_cast<std::uint64_t>(in_flows_.Value()), alone};
}

UnknownCallers Metrics::CallsOfNobody() const {
  return {static_cast<std::uint64_t>(nobodys_reads_.Value()),
          static_cast<std::uint64_t>(nobodys_writes_.Value())};
}

RequestMetrics::RequestMetrics(Metrics& metrics, const Policy& policy)
    : metrics_(metrics),
      first_tool_(policy.tools.data()),
      first_backend_(policy.backends.data()),
      tools_(policy.tools.size() + 1),
      read_overhead_(metrics.overheads.Take({{"effect", "read"}})),
      write_overhead_(metrics.overheads.Take({{"effect", "write"}})) {
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    arrivals_[i] =
        metrics.arrivals.Take({{"mode", std::string(NameOf(static_cast<IngressMode>(i)))}});
  }
  for (const Backend& backend : policy.backends) {
    backends_.push_back(
        {.ok = metrics.attempts.Take({{"backend", backend.name}, {"outcome", "ok"}}),
         .errors = {},
         .duration = metrics.backend_durations.Take({{"backend", backend.name}})});
  }
  for (std::size_t i = 0; i < tools_.size(); ++i) {
    const bool listed = i < policy.tools.size();
    tools_[i].name = listed ? policy.tools[i].name : "unlisted";
    tools_[i].effect = !listed                                   ? "unlisted"
                       : policy.tools[i].effect == Effect::kRead ? "read"
                                                                 : "write";
    if (listed && policy.tools[i].effect == Effect::kWrite) {
      tools_[i].state_replays = &metrics.state_replays.Add({{"tool", tools_[i].name}});
    }
    if (listed && policy.tools[i].settle) {
      for (const char* result : {"present", "absent", "nothing"}) {
        metrics.probes.Add({{"tool", tools_[i].name}, {"result", result}});
      }
    }
    if (!listed || !policy.tools[i].undo) continue;
    for (const char* result : {"done", "not_needed", "again", "stuck"}) {
      metrics.undos.Add({{"tool", tools_[i].name}, {"result", result}});
    }
  }
}

void RequestMetrics::CountTries(const RequestRecord& record) {
  PerBackend& backend = backends_[static_cast<std::size_t>(record.backend - first_backend_)];
  for (std::size_t i = 0; i < record.tries.size(); ++i) {
    const RequestRecord::Try& one = record.tries.at(i);
    if (one.ended == MonoTime{}) break;
    backend.duration->Observe(one.ended - one.began);
    if (i > 0)
      (record.effect == "read" ? metrics_.read_retries : metrics_.write_retries).Increment();
    CountOf(backend, record.backend->name, one.error).Increment();
  }
}

// Slugs are texts that live for ever, and few.
OwnCount& RequestMetrics::CountOf(PerBackend& backend, const std::string& name,
                                  std::string_view error) {
  if (error.empty()) return *backend.ok;
  for (const auto& [known, count] : backend.errors) {
    if (known == error) return *count;
  }
  auto count = metrics_.attempts.Take({{"backend", name}, {"outcome", std::string(error)}});
  return *backend.errors.emplace_back(error, std::move(count)).second;
}

RequestMetrics::PerTool& RequestMetrics::EntryOf(const Tool* tool) {
  return tool == nullptr ? tools_.back() : tools_[static_cast<std::size_t>(tool - first_tool_)];
}

// Results are texts that live for ever, and few.
void RequestMetrics::CountKey(const Tool* tool, std::string_view result) {
  PerTool& entry = EntryOf(tool);
  for (const auto& [known, counter] : entry.keys) {
    if (known == result) return counter->Increment();
  }
  prometheus::Counter& counter =
      metrics_.idempotency.Add({{"tool", entry.name}, {"result", std::string(result)}});
  counter.Increment();
  entry.keys.emplace_back(result, &counter);
}

void RequestMetrics::CountStateReplay(const Tool* tool) {
  PerTool& entry = EntryOf(tool);
  if (entry.state_replays == nullptr) {
    entry.state_replays = &metrics_.state_replays.Add({{"tool", entry.name}});
  }
  entry.state_replays->Increment();
}

void RequestMetrics::Count(const RequestRecord& record, std::chrono::nanoseconds took) {
  PerTool& entry = EntryOf(record.tool);
  if (entry.duration == nullptr) {
    entry.duration = metrics_.durations.Take({{"tool", entry.name}, {"effect", entry.effect}});
  }
  entry.duration->Observe(took);
  arrivals_[static_cast<std::size_t>(record.ingress_mode)]->Increment();
  if (record.backend != nullptr) CountTries(record);
  if (record.overhead) {
    (record.effect == "read" ? read_overhead_ : write_overhead_)->Observe(*record.overhead);
  }
  const std::size_t index = MethodIndex(record.method.view());
  for (const auto& [code, count] : entry.codes[index]) {
    if (code == record.status) return count->Increment();
  }
  auto count = metrics_.requests.Take({{"tool", entry.name},
                                       {"effect", entry.effect},
                                       {"method", std::string(kMethodNames[index])},
                                       {"code", std::to_string(record.status)}});
  count->Increment();
  entry.codes[index].emplace_back(record.status, std::move(count));
}

}  // namespace recourse
