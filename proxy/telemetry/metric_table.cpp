#include "proxy/telemetry/metric_table.h"

#include <algorithm>
#include <cctype>

#include "proxy/base/check.h"

namespace recourse {
namespace {

using Type = prometheus::MetricType;

constexpr MetricSpec kMetrics[] = {
    {"recourse_http_requests_total", Type::Counter, "tool effect method code",
     "requests answered; `method` is one of eight or `other`, `effect` `read`, `write` or "
     "`unlisted`"},
    {"recourse_http_request_duration_seconds", Type::Histogram, "tool effect",
     "from head to end of answer"},
    {"recourse_overhead_seconds", Type::Histogram, "effect",
     "what Recourse itself took, without the attempts; of a write with its body, commits, "
     "and waiting for the same call"},
    {"recourse_upstream_attempts_total", Type::Counter, "backend outcome",
     "attempts; `outcome` is `ok` (it answered, with any status) or an error's slug"},
    {"recourse_upstream_request_duration_seconds", Type::Histogram, "backend",
     "an attempt: of a read to its answer's head, of a write to its end"},
    {"recourse_retries_total", Type::Counter, "effect",
     "attempts after the first: of reads, and of unsent writes"},
    {"recourse_connections", Type::Gauge, "side",
     "open ones: of agents (`client`), to backends (`backend`, also kept)"},
    {"recourse_unguarded_connections_total", Type::Counter, "backend",
     "connections of others in the network namespace that went to the backend directly, of "
     "those that lived for a second (`--watch-unguarded`)"},
    {"recourse_tunnels", Type::Gauge, "", "open ones: of CONNECT (not to a backend), and upgraded"},
    {"recourse_tunnels_total", Type::Counter, "by decision",
     "tunnels asked for by `connect` or `redirect`: `served` (requests to a backend), "
     "`opened` (blind), `refused` (also later, for its TLS), `failed` (the other end), "
     "`would-refuse` (observe mode); by `upgrade`: `opened`, or `refused` by the backend"},
    {"recourse_tunnel_bytes_total", Type::Counter, "to",
     "bytes to `backend` or `client`, counted when the tunnel ends"},
    {"recourse_writes_in_flight", Type::Gauge, "", "writes being worked on"},
    {"recourse_buffered_bytes", Type::Gauge, "of",
     "memory held for calls (bodies, what was read in them, answers): `writes` with MCP "
     "and Recourse's own requests, `observed`"},
    {"recourse_buffered_bytes_max", Type::Gauge, "", "most that may be held (`--call-memory`)"},
    {"recourse_large_bodies", Type::Gauge, "", "large bodies that are judged, or wait for it"},
    {"recourse_io_turn_seconds", Type::Histogram, "",
     "how long an I/O thread did not look at its sockets; over 50 ms one call has held up "
     "all others"},
    {"recourse_interceptions_total", Type::Counter, "result",
     "intercepted TLS: `ok` (a request came), `unused` (none came: does the client pin "
     "certificates?), `untrusted` (it does not trust the CA), `version` (no TLS 1.2), "
     "`protocol` (no HTTP/1.1), `name` (another host than its CONNECT's), `closed`, "
     "`slow`, `no_certificate` (the CA has expired), `crowded`, `other`"},
    {"recourse_overload_rejections_total", Type::Counter, "reason",
     "requests and connections refused at a bound"},
    {"recourse_arrivals_total", Type::Counter, "mode",
     "requests that came `reverse` (as to the backend), `forward` (as to a proxy), by "
     "`redirect`"},
    {"recourse_redirected_connections_total", Type::Counter, "result",
     "connections to the `--redirect` port: `accepted`, or closed: not redirected "
     "(`direct`), meant for this pod (`loopback`, `own-listener`), Recourse's own "
     "(`own-user`: the rules lack its uid), of nobody in the pod (`unknown-peer`)"},
    {"recourse_idle_connections_closed_total", Type::Counter, "",
     "idle connections of agents closed to let others in"},
    {"recourse_parse_errors_total", Type::Counter, "side reason",
     "heads of requests that could not be read"},
    {"recourse_mcp_tool_changes_total", Type::Counter, "backend",
     "tools of an MCP server whose definition changed"},
    {"recourse_idempotency_total", Type::Counter, "tool result",
     "writes by what their key said: `new`, `replayed`, `forbidden` (by the tool's `deny` "
     "or `allow`), or the slug of an error"},
    {"recourse_flow_writes_total", Type::Counter, "flow",
     "writes whose flow something names (`named`), or without a trace: flows of one step "
     "(`own`)"},
    {"recourse_unknown_callers_total", Type::Counter, "effect",
     "calls without what the policy's `callers` names: a `read` passes, a `write` is "
     "refused"},
    {"recourse_state_replays_total", Type::Counter, "tool",
     "replays of an answer that was had three times and more: if the call asks for a "
     "state, its tool needs `effect: read`"},
    {"recourse_refs_missing_total", Type::Counter, "tool",
     "successful writes without their `external_ref`: the undo may lack it"},
    {"recourse_quota_refusals_total", Type::Counter, "quota",
     "calls refused by a quota of the policy"},
    {"recourse_observed_total", Type::Counter, "tool verdict",
     "observe mode: writes by what enforce would have done"},
    {"recourse_refusals_to_come_total", Type::Counter, "effect reason",
     "observe mode: calls that enforce would refuse, by slug"},
    {"recourse_observed_dropped_total", Type::Counter, "reason",
     "observe mode: writes that are missing from the ledger"},
    {"recourse_events", Type::Gauge, "phase",
     "open operations: `DISPATCHING` (being sent), `UNCERTAIN` (nobody knows)"},
    {"recourse_event_oldest_pending_timestamp_seconds", Type::Gauge, "",
     "when the oldest of them began, or 0"},
    {"recourse_flows", Type::Gauge, "phase",
     "flows that are not over: `OPEN`, `BREAKING` (also being undone), `NEEDS_HUMAN`"},
    {"recourse_flows_parked", Type::Gauge, "", "flows that broke and need a human"},
    {"recourse_flows_stopped", Type::Gauge, "",
     "flows that their deadline stopped unfinished (`on_deadline: ask`)"},
    {"recourse_flows_parked_oldest_timestamp_seconds", Type::Gauge, "",
     "when the longest waiting one was parked, or 0"},
    {"recourse_flows_total", Type::Counter, "result",
     "flows that did not complete: `undone`, `needs_human` or `stopped`"},
    {"recourse_undos_total", Type::Counter, "tool result",
     "tries to undo a step: `done`, `again` (tried later), `stuck` (a human is needed)"},
    {"recourse_approvals_pending", Type::Gauge, "", "calls that wait for a human"},
    {"recourse_approvals_total", Type::Counter, "result",
     "calls that a human was `asked` about, and their end: `partly_approved`, `approved`, "
     "`rejected`, `expired`, `void`"},
    {"recourse_approval_wait_seconds", Type::Histogram, "", "from asking to the decision or end"},
    {"recourse_probes_total", Type::Counter, "tool result",
     "by what they found: the effect is `present`, `absent`, or the answer told `nothing`"},
    {"recourse_webhooks_total", Type::Counter, "result",
     "tries to tell the webhook: `taken`, `failed` (told again)"},
    {"recourse_policy_info", Type::Gauge, "hash", "1 for the policy in force"},
    {"recourse_policy_last_reload_success_timestamp_seconds", Type::Gauge, "",
     "when it came into force"},
    {"recourse_policy_reloads_total", Type::Counter, "result",
     "changed policy files: `reloaded`, `unchanged`, `refused`"},
    {"recourse_policy_orphaned_operations", Type::Gauge, "",
     "open operations whose tool or backend left the policy, or whose policy is lost"},
    {"recourse_store_commit_duration_seconds", Type::Histogram, "",
     "one durable commit of the ledger"},
    {"recourse_store_rows_total", Type::Counter, "",
     "rows made durable; by commits: the batch size"},
    {"recourse_store_rows", Type::Gauge, "", "rows kept"},
    {"recourse_store_oldest_row_age_seconds", Type::Gauge, "",
     "lived time since the oldest of them was written, at least"},
    {"recourse_store_retention_lag_seconds", Type::Gauge, "",
     "how far that is beyond the retention"},
    {"recourse_store_tombstones", Type::Gauge, "", "keys kept without their answers"},
    {"recourse_store_locked_carried", Type::Gauge, "",
     "open operations that retention moved unread (no key)"},
    {"recourse_store_map_used_bytes", Type::Gauge, "", "ledger bytes in use"},
    {"recourse_store_map_size_bytes", Type::Gauge, "", "what the ledger may grow to"},
    {"recourse_store_free_bytes", Type::Gauge, "",
     "ledger bytes that can surely be written: limit and disk"},
    {"recourse_store_reserve_bytes", Type::Gauge, "", "of them kept for outcomes of what is open"},
    {"recourse_store_full", Type::Gauge, "", "1 while new writes are refused for want of space"},
    {"recourse_store_latched", Type::Gauge, "",
     "1 after a failed commit: writes are refused until a restart"},
    {"recourse_store_index_failing", Type::Gauge, "", "1 while the key index cannot be written"},
    {"recourse_store_index_rebuilt", Type::Gauge, "",
     "1 if this start made a missing or damaged one anew"},
    {"recourse_store_restored", Type::Gauge, "", "1 while a restore from a backup is not accepted"},
    {"recourse_ledger_up", Type::Gauge, "", "0 while a shared ledger's database takes nothing"},
    {"recourse_ledger_retries_total", Type::Counter, "sqlstate",
     "batches that met another pod's, decided anew"},
    {"recourse_ledger_in_doubt_total", Type::Counter, "", "batches whose answer was lost"},
    {"recourse_ledger_takeovers_total", Type::Counter, "", "dead pods that this one took over"},
    {"recourse_ledger_fenced_total", Type::Counter, "", "times that this pod was taken for dead"},
    {"recourse_ledger_second_effects_total", Type::Counter, "",
     "calls of this pod that had effects after another had gone on with them"},
    {"recourse_ledger_orphaned_work", Type::Gauge, "",
     "calls and flows of the group that no living pod has"},
    {"recourse_ledger_async_standbys", Type::Gauge, "",
     "standbys of the database, if none is awaited"},
    {"recourse_access_log_lines_dropped_total", Type::Counter, "",
     "lines dropped because the log was too slow"},
    {"recourse_trace_spans_total", Type::Counter, "result",
     "spans `exported`, `refused` by the collector, `dropped` (it was slow or away)"},
    {"recourse_build_info", Type::Gauge, "version commit", "1"},
    {"process_start_time_seconds", Type::Gauge, "", "when the process started"},
    {"process_cpu_seconds_total", Type::Counter, "", "processor time used"},
    {"process_resident_memory_bytes", Type::Gauge, "", "memory used"},
    {"process_open_fds", Type::Gauge, "", "open file descriptors"},
    {"process_max_fds", Type::Gauge, "", "most that may be open"},
};

}  // namespace

std::string MetricSpec::help() const {
  std::string text(meaning);
  std::erase(text, '`');
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text + ".";
}

std::span<const MetricSpec> MetricSpecs() { return kMetrics; }

const MetricSpec& MetricNamed(std::string_view name) {
  const auto* const found = std::ranges::find(kMetrics, name, &MetricSpec::name);
  RC_CHECK(found != std::end(kMetrics));
  return *found;
}

}  // namespace recourse
