// The admin API and the probe endpoints (kubernetes.md e.1).
#pragma once

#include <atomic>
#include <string>

#include "filters/ledger/ledger.h"
#include "proxy/base/http_message.h"
#include "proxy/server/access_log.h"
#include "proxy/server/metrics.h"

namespace recourse {

// GET /events, /events/{id}, /version; POST /ledger/verify. Every request needs the bearer token;
// with an empty token all are refused. Blocking, on the admin thread.
class AdminApi {
 public:
  AdminApi(Ledger& ledger, std::string token, std::string policy_version)
      : ledger_(ledger), token_(std::move(token)), policy_version_(std::move(policy_version)) {}
  HttpResponse Handle(const HttpRequest& request);

 private:
  bool Authorized(const HttpRequest& request) const;
  HttpResponse ListEvents(std::string_view query);
  HttpResponse ShowEvent(std::string_view id);

  Ledger& ledger_;
  const std::string token_;
  const std::string policy_version_;
};

// GET /live, /ready, /metrics: no authentication, changes nothing.
class ProbeApi {
 public:
  ProbeApi(Ledger& ledger, Metrics& metrics, const AccessLog& access_log)
      : ledger_(ledger), metrics_(metrics), access_log_(access_log) {}
  HttpResponse Handle(const HttpRequest& request);

  std::atomic<bool> ready{false};

 private:
  Ledger& ledger_;
  Metrics& metrics_;
  const AccessLog& access_log_;
};

}  // namespace recourse
