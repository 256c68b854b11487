// What sessions share: one Services per process, one Worker per I/O thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "filters/filter.h"
#include "filters/ledger/ledger.h"
#include "policy/policy.h"
#include "proxy/net/connection_pool.h"
#include "proxy/net/connector.h"
#include "proxy/net/fresh_upstream.h"
#include "proxy/net/io_thread.h"
#include "proxy/server/access_log.h"
#include "proxy/server/metrics.h"
#include "proxy/server/request_log.h"

namespace recourse {

struct Services {
  std::shared_ptr<const Policy> policy;  // constant after start
  Ledger* ledger = nullptr;
  AccessLog* access_log = nullptr;
  Metrics* metrics = nullptr;
  const Clock* clock = nullptr;
  OwnListeners own;
  std::string via;               // "1.1 recourse-1a2b3c4d": our pseudonym in Via
  std::string caller = "local";  // identity of the agent in this pod

  std::atomic<bool> draining{false};
  std::atomic<std::size_t> sessions{0};
  std::atomic<std::size_t> busy{0};  // requests being worked on
  std::atomic<std::size_t> write_flows{0};
  std::atomic<std::size_t> write_bytes{0};  // of request bodies held
};

struct Worker {
  Worker(Services& shared, IoThread& io)
      : services(shared),
        thread(io),
        pool(io),
        upstream(io, shared.own, shared.via),
        metrics(*shared.metrics, *shared.policy),
        log(*shared.access_log, *shared.clock, *shared.policy) {}

  Services& services;
  IoThread& thread;
  ConnectionPool pool;
  FreshUpstream upstream;
  RequestMetrics metrics;
  RequestLog log;
  FilterChain chain;
};

}  // namespace recourse
