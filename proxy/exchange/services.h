// What exchanges share: one Services per process, one Worker per I/O thread, and the policy in
// force as each thread sees it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/call/codecs.h"
#include "filters/credentials/credential_upstream.h"
#include "filters/filter.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/model/waiting_clients.h"
#include "filters/observe/observer.h"
#include "filters/outcome_resolver.h"
#include "policy/model/host_cache.h"
#include "policy/model/policy.h"
#include "policy/model/principal.h"
#include "proxy/base/call_budget.h"
#include "proxy/base/thread_pool.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/exchange/connection_limiter.h"
#include "proxy/exchange/idle_connections.h"
#include "proxy/exchange/request_facts.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/net/loop/io_thread.h"
#include "proxy/net/tls/leaf_issuer.h"
#include "proxy/net/tls/tls_server.h"
#include "proxy/net/upstream/connector.h"
#include "proxy/net/upstream/upstream_pool.h"
#include "proxy/net/upstream/write_client.h"
#include "proxy/telemetry/access_log.h"
#include "proxy/telemetry/call_shapes.h"
#include "proxy/telemetry/metrics.h"
#include "proxy/telemetry/request_record.h"
#include "proxy/telemetry/span_queue.h"
#include "proxy/traffic/traffic_recorder.h"

namespace recourse {

struct Services {
  explicit Services(std::size_t call_memory_bytes) : budget(call_memory_bytes) {}

  void UseInstallSecret(std::string secret) {
    install_secret = std::move(secret);
    install_key.emplace(install_secret);
  }

  Ledger* ledger = nullptr;
  Observer* observer = nullptr;
  AccessLog* access_log = nullptr;
  Metrics* metrics = nullptr;
  const Clock* clock = nullptr;
  SpanQueue* tracer = nullptr;               // null: traces are off
  std::unique_ptr<TrafficRecorder> traffic;  // of observe mode; null: there is no secret
  Random* random = nullptr;
  LeafIssuer* minter = nullptr;
  OwnListeners own;
  ClientBounds bounds;
  CallBudget budget;
  ThreadPool large_bodies{limits::kLargeBodiesMax};  // judges them
  // Agents' TLS handshakes that run. Who has sent nothing yet needs no place.
  ConnectionLimiter handshakes{limits::kTlsHandshakesMax, limits::kTlsHandshakesPerPeerMax};
  std::string install_secret;
  std::optional<HmacKey> install_key;  // of the same
  std::string ledger_secret;           // names of polls are signed with it
  std::string via;                     // "1.1 recourse-1a2b3c4d": our pseudonym in Via
  std::string pod_flow;                // what `without_trace: pod` names
  CallerIdentity uncertified;          // agents that show no certificate

  TokenCache tokens;                    // for backends
  OutcomeResolver* settling = nullptr;  // told what servers tell agents
  WaitingClients clients;

  std::atomic<bool> draining{false};
  std::atomic<std::size_t> connections{0};  // of agents
  std::atomic<std::size_t> write_flows{0};
  std::atomic<std::size_t> observing{0};  // writes of observe mode that are being written down
};

// One policy with what one I/O thread keeps by its tools and backends. A request holds the view it
// began with until its last log line, so pointers into the policy stay good across a reload; the
// last holder frees it. May be built on any thread; used on its worker's thread only.
struct PolicyView {
  using Earlier = std::vector<std::weak_ptr<const Policy>>;
  PolicyView(std::shared_ptr<const Policy> of, Earlier before, const Services& services)
      : policy(std::move(of)),
        earlier(std::move(before)),
        fields_read(FieldsReadBy(*policy, earlier)),
        metrics(*services.metrics, *policy),
        log(*services.access_log, *services.clock, *policy),
        last_host(*policy->routes),
        via("Via", services.via) {
    for (const Backend& backend : policy->backends) hosts.emplace_back("Host", backend.authority);
  }

  // The Host field for a backend of the policy.
  const FieldLine& HostOf(const Backend& backend) const {
    return hosts[static_cast<std::size_t>(&backend - policy->backends.data())];
  }

  const std::shared_ptr<const Policy> policy;
  const Earlier earlier;  // that were in force before, as long as anything needs them
  // By any of them: what an earlier one named a call by is asked for again.
  const std::vector<std::string> fields_read;
  RequestMetrics metrics;
  RequestLog log;
  HostCache last_host;
  const FieldLine via;
  std::vector<FieldLine> hosts;
};

struct Worker {
  Worker(Services& shared, IoThread& io, std::shared_ptr<const Policy> policy,
         PolicyView::Earlier earlier)
      : services(shared),
        thread(io),
        pool(io, shared.own),
        writes(io, pool, shared.via),
        credentialed(writes, ReadSecretFile, shared.tokens, io, *shared.clock),
        upstream(credentialed, io, *shared.clock, *shared.random),
        view(std::make_shared<PolicyView>(std::move(policy), std::move(earlier), shared)),
        span_ids(*shared.random),
        turns(shared.metrics->turns.Take({})) {
    io.upkeep().Add([this] { return pool.Sweep(); });
    io.OnTurn([this](std::chrono::nanoseconds took) { turns->Observe(took); });
    io.files().WhenShort([this] { return ClearIdle(); });
  }

  // After the thread's Stop(). The ledger's end lets others go on with what has not arrived yet.
  void Join() {
    thread.Join();
    writes.DropSent();
  }
  // Closes idle connections to backends. False: there was none.
  bool ClearIdle() { return pool.Clear(); }

  Services& services;
  IoThread& thread;
  UpstreamPool pool;
  UpstreamStreams* streams = &pool;  // of reads; a test scripts them
  WriteUpstream writes;              // over `pool`
  CredentialUpstream credentialed;   // over `writes`
  CodecUpstream upstream;            // over that
  std::shared_ptr<PolicyView> view;  // of requests that begin now; replaced on this thread
  SpanIds span_ids;
  const Latencies::Own turns;  // of the thread
  FilterChain chain;
  CallShapes unlisted{limits::kUnlistedShapesMax};
  CallShapes refused{limits::kRefusedShapesMax};  // observe mode: reads that enforce would refuse
  IdleConnections idle;                           // of the agents' connections
  std::shared_ptr<const TlsServer> tls;           // for new connections of agents; null: plain
  // A handshake has failed. At most one line a second tells of those, as anybody can make them
  // fail.
  bool MayTellOfHandshake() {
    ++handshakes_failed;
    const MonoTime now = thread.clock().Now();
    if (now < next_handshake_log) return false;
    next_handshake_log = now + std::chrono::seconds(1);
    return true;
  }
  MonoTime next_handshake_log{};
  std::size_t handshakes_failed = 0;  // since the last line
  // Likewise of connections to the redirect listener that were closed at once.
  MonoTime next_arrival_log{};
  std::size_t arrivals_refused = 0;
};

}  // namespace recourse
