#include "filters/chain/chain.h"

#include "filters/approval/approval_filter.h"
#include "filters/dispatch/dispatch_filter.h"
#include "filters/idempotency/idempotency_filter.h"
#include "filters/retry/retry_filter.h"
#include "filters/saga/saga_filter.h"
#include "filters/trace/trace_filter.h"

namespace recourse {

FilterChain MakeChain(const ChainParts& parts) {
  FilterChain chain;
  // First: the key and every log line need the trace.
  chain.push_back(std::make_unique<TraceFilter>(parts.random));
  // Before everything that would send it: a message to us is no call.
  chain.push_back(std::make_unique<SagaFilter>(parts.flowing));
  // Before the key: whether it needs a human says what the ledger begins. What a human approved is
  // sent through the chain from the next one on.
  chain.push_back(std::make_unique<ApprovalFilter>());
  // Before everything that acts: a repeat must end here.
  chain.push_back(std::make_unique<IdempotencyFilter>(
      IdempotencyFilter::Parts{.ledger = parts.ledger,
                               .settling = parts.settling,
                               .flowing = parts.flowing,
                               .approving = parts.approving,
                               .clock = parts.clock,
                               .random = parts.random,
                               .install_secret = parts.install_secret,
                               .ledger_secret = parts.ledger_secret,
                               .before = {parts.upstream, parts.tracing, parts.clock},
                               .read_secret = parts.read_secret}));
  // Around dispatch only: what is tried again is one attempt, never the decision above.
  chain.push_back(std::make_unique<RetryFilter>(parts.clock, parts.random));
  // Last: the only filter that sends.
  chain.push_back(std::make_unique<DispatchFilter>(parts.upstream, parts.clock));
  return chain;
}

}  // namespace recourse
