// Prometheus metrics. Labels come from the policy or from fixed sets only.
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

#include "filters/call/flow_counts.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/telemetry/exemplars.h"
#include "proxy/telemetry/histogram.h"
#include "proxy/telemetry/ingress_mode.h"

namespace recourse {

// Result of a write that was answered from the ledger, as recourse_idempotency_total has it.
inline constexpr std::string_view kReplayed = "replayed";

class Ledger;
struct RequestRecord;

// What only the moment of a scrape can tell, besides the ledger.
struct ScrapeFacts {
  std::uint64_t log_lines_dropped = 0;
  std::size_t served_bytes = 0, observed_bytes = 0;  // held for calls
  std::size_t call_memory_bytes = 0;                 // most that may be
  std::size_t backend_connections = 0;
};

// Calls without what the policy's `callers` names.
struct UnknownCallers {
  std::uint64_t reads = 0, writes = 0;
};

class Metrics {
 public:
  explicit Metrics(WallTime started);

  // A policy came into force. One thread at a time.
  void PolicyInForce(const std::string& version, WallTime when);

  enum class Format : std::uint8_t { kPrometheusText, kOpenMetrics };  // 0.0.4, 1.0
  // Thread-safe.
  std::string Scrape(Ledger& ledger, const ScrapeFacts& facts, Format format);

  // Thread-safe.
  void CountProbe(const std::string& tool, std::string_view result);

  // Observe mode: a call that enforce would refuse. `reason` begins with its slug. Thread-safe.
  void CountRefusalToCome(std::string_view effect, std::string_view reason);

  // Writes of observe mode that were not recorded. Thread-safe.
  std::uint64_t ObservedDropped() const;

  // A call without what the policy's `callers` names. Thread-safe.
  void CountUnknownCaller(bool is_write) {
    (is_write ? nobodys_writes_ : nobodys_reads_).Increment();
  }
  UnknownCallers CallsOfNobody() const;

  // A write with a flow, which `is_shared` when something names it. Thread-safe.
  void CountFlow(bool is_shared) { (is_shared ? in_flows_ : alone_).Increment(); }
  FlowCounts WritesByFlow() const;

  prometheus::Registry registry;
  Exemplars exemplars;                  // of `durations`
  Counts requests, attempts, arrivals;  // arrivals: requests, by how they come
  Latencies durations, backend_durations, overheads, turns;
  prometheus::Family<prometheus::Counter>& idempotency;
  prometheus::Family<prometheus::Counter>& observed;
  prometheus::Family<prometheus::Counter>& observed_dropped;
  prometheus::Family<prometheus::Counter>& refusals_to_come;
  prometheus::Family<prometheus::Counter>& refs_missing;
  prometheus::Family<prometheus::Counter>& state_replays;
  prometheus::Family<prometheus::Counter>& parse_errors;
  prometheus::Family<prometheus::Counter>& rejections;
  prometheus::Family<prometheus::Counter>& mcp_tool_changes;
  prometheus::Family<prometheus::Counter>& redirected;     // connections, by result
  prometheus::Family<prometheus::Counter>& interceptions;  // TLS of agents that ends here
  prometheus::Family<prometheus::Counter>& policy_reloads;
  prometheus::Family<prometheus::Counter>& undos;      // by tool and result
  prometheus::Family<prometheus::Counter>& flows;      // that ended, by result
  prometheus::Family<prometheus::Counter>& webhooks;   // tries, by result
  prometheus::Family<prometheus::Counter>& probes;     // by tool and result
  prometheus::Family<prometheus::Counter>& spans;      // by result
  prometheus::Family<prometheus::Counter>& approvals;  // asked and decided, by result
  prometheus::Histogram& approval_wait;
  prometheus::Gauge& orphaned_operations;
  prometheus::Counter &read_retries, &write_retries;
  prometheus::Counter& made_room;
  prometheus::Family<prometheus::Gauge>& connections_by_side;
  prometheus::Gauge& connections;  // of agents
  prometheus::Gauge &write_flows, &large_bodies;
  prometheus::Gauge& tunnels;
  prometheus::Family<prometheus::Counter>& tunnels_by_decision;
  prometheus::Counter &tunnels_opened, &tunnels_refused;  // by an upgrade
  prometheus::Family<prometheus::Counter>& tunnel_bytes;
  prometheus::Counter &tunnel_bytes_to_backend, &tunnel_bytes_to_client;
  prometheus::Histogram& commit_seconds;
  prometheus::Counter& commit_rows;

 private:
  void BeginSeries();

  prometheus::Family<prometheus::Counter>& flow_writes_;
  prometheus::Counter &in_flows_, &alone_;
  prometheus::Family<prometheus::Counter>& unknown_callers_;
  prometheus::Counter &nobodys_reads_, &nobodys_writes_;
  prometheus::Family<prometheus::Gauge>& operations_;
  prometheus::Gauge& oldest_pending_;
  prometheus::Gauge& used_bytes_;
  prometheus::Gauge& map_bytes_;
  prometheus::Gauge& latched_;
  struct StoreGauges {
    prometheus::Gauge *free, *reserve, *full, *rows, *oldest_row, *lag, *tombstones, *locked,
        *restored, *index_failing, *index_rebuilt;
  };
  StoreGauges store_;
  struct FlowGauges {
    prometheus::Gauge *open, *breaking, *needs_human, *parked, *parked_since, *stopped, *approvals;
  };
  FlowGauges flow_gauges_;
  struct ProcessGauges {
    prometheus::Gauge *served_bytes, *observed_bytes, *call_memory, *resident, *open_fds, *max_fds;
  };
  ProcessGauges process_;
  prometheus::Family<prometheus::Gauge>& policy_info_;
  prometheus::Gauge& policy_loaded_;
  prometheus::Gauge* policy_in_force_ = nullptr;
};

// The counters of one I/O thread, taken once and then found by index: a label lookup per request
// would cost more than the rest of its bookkeeping. Not thread-safe; `metrics` outlives it.
class RequestMetrics {
 public:
  RequestMetrics(Metrics& metrics, const Policy& policy);

  // A request that has ended.
  void Count(const RequestRecord& record, std::chrono::nanoseconds took);
  // Only its attempts at the backend, which is one of this policy.
  void CountTries(const RequestRecord& record);
  // What the key of a write said; nullptr: of an unlisted one.
  void CountKey(const Tool* tool, std::string_view result);
  // A replay to a call that may ask how things stand; likewise.
  void CountStateReplay(const Tool* tool);

 private:
  static constexpr std::size_t kMethods = 9;
  struct PerTool {
    std::string name, effect;
    Latencies::Own duration;
    std::array<std::vector<std::pair<int, Counts::Own>>, kMethods> codes;
    std::vector<std::pair<std::string_view, prometheus::Counter*>> keys;  // by result
    prometheus::Counter* state_replays = nullptr;                         // null: none yet
  };
  struct PerBackend {
    Counts::Own ok;
    std::vector<std::pair<std::string_view, Counts::Own>> errors;  // by slug
    Latencies::Own duration;
  };

  PerTool& EntryOf(const Tool* tool);
  OwnCount& CountOf(PerBackend& backend, const std::string& name, std::string_view error);

  Metrics& metrics_;
  const Tool* first_tool_;
  const Backend* first_backend_;
  std::vector<PerBackend> backends_;
  std::vector<PerTool> tools_;  // the last one is for unlisted calls
  const Latencies::Own read_overhead_, write_overhead_;
  std::array<Counts::Own, kIngressModes> arrivals_;
};

}  // namespace recourse
