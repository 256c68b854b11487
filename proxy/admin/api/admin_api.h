// The admin API and the probe endpoints.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "filters/ledger/ledger.h"
#include "filters/ledger/queries/audit.h"
#include "filters/observe/call_differences.h"
#include "proxy/admin/access/access_control.h"
#include "proxy/admin/api/activity_api.h"
#include "proxy/admin/api/approval_api.h"
#include "proxy/admin/api/events_api.h"
#include "proxy/admin/api/flow_api.h"
#include "proxy/admin/api/operation_api.h"
#include "proxy/admin/api/process_api.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/http/http_message.h"
#include "proxy/net/beast/http_server.h"
#include "proxy/reload/policy_reload.h"
#include "proxy/report/report.h"
#include "proxy/telemetry/access_log.h"
#include "proxy/telemetry/metrics.h"

namespace recourse {

// Does what endpoints.h lists, for whom the door admits. Blocking, on the admin thread.
class AdminApi {
 public:
  // What the process counts of what the ledger does not hold; called on the admin thread.
  struct Counts {
    std::uint64_t not_recorded = 0;
    std::uint64_t replays = 0;
    std::uint64_t unlisted_other = 0;
    std::uint64_t refused_other = 0;
    std::vector<UnlistedLine> unlisted_reads;
    FlowCounts flow_counts{};
    std::vector<RefusedLine> refused;
    std::vector<DifferenceLine> differences;
    std::uint64_t differences_other = 0;
  };
  struct Parts {
    Ledger& ledger;
    const Clock& clock;
    AccessControl& door;
    PolicyReloader& reloader;
    std::function<Counts()> counts;
    std::function<FlowApi&()> flows;
    std::function<OperationApi&()> operations;
    std::function<ApprovalApi&()> approvals;
    std::function<ProcessApi::Work()> work;
    std::function<void()> drain;
  };
  explicit AdminApi(Parts parts)
      : parts_(std::move(parts)),
        started_(parts_.clock.WallNow()),
        pods_(parts_.ledger),
        stream_(parts_.ledger, parts_.clock),
        activity_(parts_.ledger, stream_),
        process_({.ledger = parts_.ledger,
                  .clock = parts_.clock,
                  .reloader = parts_.reloader,
                  .work = parts_.work,
                  .drain = parts_.drain,
                  .note = [this](const Operator& who,
                                 std::string what) { NoteOrder(who, std::move(what)); }}),
        auditor_(dynamic_cast<LedgerAuditor*>(&parts_.ledger)) {}
  ServedAnswer Handle(const HttpRequest& request, const HttpPeer& peer);
  // Something was committed: who watches is told. Any thread; never blocks.
  void Notify() { stream_.Notify(); }
  // The ledger is about to be closed: it is not read any more. Once no request is being served.
  void Close() { stream_.Stop(); }

 private:
  ServedAnswer Do(const AccessControl::Visit& visit, const HttpRequest& request,
                  const HttpPeer& peer);
  ServedAnswer Post(const AccessControl::Visit& visit, const HttpRequest& request);
  HttpResponse Accept(const Operator& who, const std::string& body);
  HttpResponse ListRows(std::string_view query);
  ServedAnswer Backup(const Operator& who);
  // Who ordered what, for the hash chain; before it is done. Without a ledger it is in the log.
  Result<void> RecordOrder(const Operator& who, std::string what, std::string reason);
  void NoteOrder(const Operator& who, std::string what);
  HttpResponse ShowEvent(std::string_view id);
  HttpResponse ShowReport(std::string_view query);

  const Parts parts_;
  const WallTime started_;
  PodNames pods_;
  EventStream stream_;
  ActivityApi activity_;
  EventsApi events_{parts_.ledger};
  ProcessApi process_;
  LedgerAuditor* const auditor_;  // null: the ledger could not be opened
};

// GET /live, /ready, /metrics: no authentication, changes nothing.
class ProbeApi {
 public:
  // `is_observing`: the policy in force says observe, where a ledger that cannot be written stops
  // nothing.
  ProbeApi(Ledger& ledger, Metrics& metrics, std::function<ScrapeFacts()> facts,
           std::function<bool()> is_observing)
      : observing_(std::move(is_observing)),
        facts_(std::move(facts)),
        ledger_(ledger),
        metrics_(metrics) {}
  HttpResponse Handle(const HttpRequest& request);

  std::atomic<bool> ready{false};

 private:
  const std::function<bool()> observing_;
  const std::function<ScrapeFacts()> facts_;
  Ledger& ledger_;
  Metrics& metrics_;
};

}  // namespace recourse
