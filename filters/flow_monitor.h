// How the chain tells whoever looks after flows. Implemented by filters/saga.
#pragma once

#include <cstdint>
#include <string>

#include "filters/ledger/model/flow.h"
#include "proxy/base/error.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

struct Event;  // filters/ledger/model/event.h

class FlowMonitor {
 public:
  virtual ~FlowMonitor() = default;
  // A step has begun, or its outcome was recorded: its flow may have a deadline now, may be broken,
  // or may be waiting for just that. Thread-safe, does not wait.
  virtual void Watch(const Event& step) = 0;
  // The agent's word: commits or breaks the open flow that `flow` names. Gives the flow as it is
  // then. Fails with kDenied when there is no such flow, kLedgerUnavailable, kOverloaded. Call on
  // `executor`'s thread; resumes there.
  virtual Task<Result<FlowState>> Order(std::string caller, std::string flow, FlowMove move,
                                        Executor& executor) = 0;
};

}  // namespace recourse
