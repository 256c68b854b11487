// What the worker that looks after flows is given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "filters/credentials/credentials.h"
#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "filters/saga/undo_sender.h"
#include "filters/tracing.h"
#include "filters/upstream.h"
#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/random.h"

namespace recourse {

// A flow came to a point that people want to hear of.
struct FlowNotification {
  FlowState state;
  std::uint64_t undone = 0;  // steps, in all
};

struct FlowParts {
  Ledger& ledger;
  Upstream& upstream;  // of the worker's thread
  OutcomeResolver& settling;
  Executor& executor;
  Timer& timer;
  const Clock& clock;
  Random& random;
  // The policy of that version, or the one in force when it is lost. Thread-safe.
  std::function<std::shared_ptr<const Policy>(const std::string& version)> policy;
  ReadSecret read_secret;
  // Called on the worker's thread whenever a flow was undone or needs a human.
  std::function<void(const FlowNotification&)> tell;
  // Called on the worker's thread after each try to undo a step of that tool.
  std::function<void(const std::string& tool, UndoOutcome::Kind)> tried{};
  SpanSink* tracing = nullptr;  // null: traces are off
  KeepOwn keep{};
  // Whether that version, which another process had, may still be found: what needs it waits.
  // Thread-safe; unset: there are no others.
  std::function<bool(const std::string& version)> is_awaited{};
};

}  // namespace recourse
