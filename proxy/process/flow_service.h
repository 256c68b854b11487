// What a process has for flows: who undoes them, who tells the webhook of what needs a human, and
// what operators reach of them. On the thread of one worker.
#pragma once

#include <atomic>
#include <vector>

#include "filters/outcome_resolver.h"
#include "filters/saga/flow_worker.h"
#include "proxy/admin/api/flow_api.h"
#include "proxy/admin/api/operation_api.h"
#include "proxy/base/random.h"
#include "proxy/exchange/services.h"
#include "proxy/notify/webhook.h"
#include "proxy/reload/policy_versions.h"

namespace recourse {

class FlowService {
 public:
  struct Parts {
    Ledger& ledger;
    Worker& worker;
    OutcomeResolver& settling;
    const Clock& clock;
    Random& random;
    PolicyVersions& versions;
    Metrics& metrics;
    SpanSink* tracing;
  };
  explicit FlowService(const Parts& parts);

  // Begins to work on flows. Call once.
  void Start();
  // There is more: what another process saw to, and left by its death. Thread-safe, once started.
  void LoadMore();
  // Lets no further undo request, and no further news, begin. Thread-safe, as undoes(): one is
  // still on its way.
  void Stop();
  bool undoes() const { return undoes_; }

  Webhook& webhook() { return webhook_; }
  FlowWorker& runner() { return runner_; }
  FlowApi& api() { return api_; }
  OperationApi& operations() { return operations_; }

 private:
  void Tell(const FlowNotification& news);

  Metrics& metrics_;
  Executor& executor_;
  std::atomic<bool> undoes_{false};  // the runner works
  Webhook webhook_;
  FlowWorker runner_;
  FlowApi api_;
  OperationApi operations_;
};

}  // namespace recourse
