// The admin API's part about approvals. The agents' port has none of it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "filters/approval/approval_worker.h"
#include "filters/ledger/ledger.h"
#include "proxy/admin/access/access_control.h"
#include "proxy/admin/access/problem.h"
#include "proxy/admin/views/pod_names.h"
#include "proxy/base/clock.h"
#include "proxy/base/http/http_message.h"

namespace recourse {

// GET /approvals, /approvals/{operation}; POST /approvals/{operation}/approve and reject. Whoever
// calls it has checked the operator's role; whom the policy names is checked here. Blocking, on the
// admin thread.
class ApprovalApi {
 public:
  struct Parts {
    Ledger& ledger;
    ApprovalWorker& runner;
    const Clock& clock;
    // As ApprovalWorker's.
    std::function<std::shared_ptr<const Policy>(const Digest& asked)> policy;
  };
  explicit ApprovalApi(Parts parts) : parts_(std::move(parts)), pods_(parts_.ledger) {}

  // The endpoint is one of approvals.
  HttpResponse Handle(const AccessControl::Visit& visit, const HttpRequest& request);

 private:
  HttpResponse List(std::string_view query);
  HttpResponse Show(std::uint64_t operation);
  std::vector<CallersRule> CallersOf(const Event& event) const;
  // Why that person may say nothing about it, or not approve it; empty: the ledger judges.
  std::string WhyNotTheirs(const Event& event, const Operator& who) const;
  std::string WhyNotTwice(const Event& event, const Operator& who) const;
  HttpResponse Decide(ApprovalOrder order, const AccessControl::Visit& visit,
                      const HttpRequest& request);
  // The operation's latest event; fails with the answer that says why there is none.
  std::expected<Event, HttpResponse> Find(std::uint64_t operation);
  std::vector<std::string> CredentialsOf(const Event& event) const;
  std::vector<Event> EarlierCalls(const Event& event);
  // Why the body may not be sent instead; empty: it may.
  std::string ObjectionTo(const Event& event, const std::string& body);

  const Parts parts_;
  PodNames pods_;
};

// Of its list.
JsonShape ApprovalPageShape();

}  // namespace recourse
