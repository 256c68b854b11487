#include "proxy/server/approval_desk.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "proxy/base/log.h"
#include "proxy/server/metrics.h"

namespace recourse {
namespace {

// What was asked and decided is as it was decided: the key, the flow and the approval are there.
Next FromIdempotency(const FilterChain& chain) {
  const auto at = std::find_if(chain.begin(), chain.end(),
                               [](const auto& filter) { return filter->name() == "idempotency"; });
  return Next(std::span(at, chain.end()));
}

const char* ResultOf(const Event& event) {
  switch (event.phase) {
    case Phase::kClaimed:
      return event.cause == Cause::kAsked ? "asked" : "partly_approved";
    case Phase::kApproved:
      return "approved";
    case Phase::kDenied:
      return "rejected";
    default:
      return event.cause == Cause::kExpired ? "expired" : "void";
  }
}

}  // namespace

ApprovalDesk::ApprovalDesk(const Parts& parts)
    : metrics_(parts.metrics),
      webhook_(parts.webhook),
      clock_(parts.clock),
      executor_(parts.worker.thread),
      runner_({.ledger = parts.ledger,
               .executor = parts.worker.thread,
               .timer = parts.worker.thread,
               .clock = parts.clock,
               .policy = [&versions = parts.versions] { return versions.Current(); },
               .send = [this, &worker = parts.worker](
                           RequestContext& context) { return Send(worker, context); },
               .tell = [this](const Event& event) { Tell(event); }}),
      api_({.ledger = parts.ledger,
            .runner = runner_,
            .clock = parts.clock,
            .policy = [&versions = parts.versions] { return versions.Current(); }}) {}

Task<Result<Outcome>> ApprovalDesk::Send(Worker& worker, RequestContext& context) {
  ++sending_;
  Result<Outcome> outcome = co_await FromIdempotency(worker.chain)(context);
  --sending_;
  co_return outcome;
}

void ApprovalDesk::Start() {
  std::vector<Job> start;
  sends_ = true;
  start.emplace_back([this] { Spawn(runner_.Run(), [this] { sends_ = false; }); });
  executor_.Post(std::move(start));
}

void ApprovalDesk::Tell(const Event& event) {
  metrics_.approvals.Add({{"result", ResultOf(event)}}).Increment();
  const bool is_new = event.phase == Phase::kClaimed && event.cause == Cause::kAsked;
  if (is_new) {
    webhook_.Tell(event);
  } else if (event.phase != Phase::kClaimed) {
    const std::int64_t waited_ms = ToUnixMillis(clock_.WallNow()) - event.approval->asked_ms;
    metrics_.approval_wait.Observe(static_cast<double>(std::max<std::int64_t>(0, waited_ms)) / 1e3);
  }
  Log(LogLevel::kInfo, is_new ? "a call waits for a human" : "a call that waited was decided",
      {{"operation", std::to_string(event.operation)},
       {"tool", event.tool},
       {"caller", event.caller},
       {"result", ResultOf(event)},
       {"detail", event.detail}});
}

}  // namespace recourse
