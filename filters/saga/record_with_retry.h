#pragma once

#include <functional>

#include "filters/ledger/ledger.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// Waits a little before a record is tried again; false: give up, the process ends.
using RecordPause = std::function<Task<bool>()>;

// Records the outcome of a request that was sent. While the ledger's queue is full it is tried
// again, or the operation would be running until a restart. Without `pause` once.
inline Task<Result<Event>> RecordWithRetry(Ledger& ledger, Transition transition,
                                           Executor& executor, const RecordPause& pause) {
  for (;;) {
    auto recorded = co_await ledger.Record(transition, executor);
    if (recorded || recorded.error().code() != ErrorCode::kOverloaded || !pause) {
      co_return recorded;
    }
    if (!co_await pause()) co_return recorded;
  }
}

}  // namespace recourse
