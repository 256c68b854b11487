#pragma once

#include "filters/approval_queue.h"
#include "filters/credentials/credentials.h"
#include "filters/filter.h"
#include "filters/flow_monitor.h"
#include "filters/ledger/ledger.h"
#include "filters/outcome_resolver.h"
#include "filters/tracing.h"
#include "proxy/base/random.h"

namespace recourse {

// What the filters of one I/O thread stand on; everything outlives the chain.
struct ChainParts {
  Ledger& ledger;
  Upstream& upstream;
  OutcomeResolver& settling;
  FlowMonitor& flowing;
  ApprovalQueue& approving;
  const Clock& clock;
  Random& random;
  const std::string& install_secret;  // keys are made with it
  const std::string& ledger_secret;   // polls are signed with it
  ReadSecret read_secret;
  SpanSink* tracing;  // null: traces are off
};

// The one ordered list of filters, with the reason for each place.
FilterChain MakeChain(const ChainParts& parts);

}  // namespace recourse
