// What a process has for approvals: who looks after what waits, and what operators reach of it. On
// the thread of one worker.
#pragma once

#include <atomic>

#include "filters/approval/approval_worker.h"
#include "proxy/admin/api/approval_api.h"
#include "proxy/exchange/services.h"
#include "proxy/notify/webhook.h"
#include "proxy/reload/policy_versions.h"

namespace recourse {

class ApprovalService {
 public:
  struct Parts {
    Ledger& ledger;
    Worker& worker;  // its chain is made before Start
    const Clock& clock;
    const PolicyVersions& versions;
    Metrics& metrics;
    Webhook& webhook;  // of the same thread
  };
  explicit ApprovalService(const Parts& parts);

  // Begins to work: what was approved before a restart is sent. Call once.
  void Start();
  // There is more: what waited at another process that ended. Thread-safe, once started.
  void LoadMore() { runner_.LoadMore(); }
  // Lets no further call begin. Thread-safe, as sends(): one is still on its way.
  void Stop() { runner_.Stop(); }
  bool sends() const { return sends_; }
  // Approved calls that are being sent. Thread-safe.
  std::size_t sending() const { return sending_; }

  ApprovalWorker& runner() { return runner_; }
  ApprovalApi& api() { return api_; }

 private:
  void Tell(const Event& event);
  Task<Result<Outcome>> Send(Worker& worker, RequestContext& context);

  Metrics& metrics_;
  Webhook& webhook_;
  const Clock& clock_;
  Executor& executor_;
  std::atomic<bool> sends_{false};  // the runner works
  std::atomic<std::size_t> sending_{0};
  ApprovalWorker runner_;
  ApprovalApi api_;
};

}  // namespace recourse
