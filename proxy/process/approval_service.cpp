#include "proxy/process/approval_service.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "filters/call/codecs.h"
#include "filters/call/traceparent.h"
#include "filters/ledger/model/row_id.h"
#include "filters/tracing.h"
#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"
#include "proxy/config/files.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/telemetry/attempt_records.h"
#include "proxy/telemetry/metrics.h"

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

bool IsSampled(const TraceContext& trace) {
  const std::string field = FormatTraceparent(trace);
  const auto read = ReadTraceparent(field);
  return read && read->IsSampled();
}

// Of MCP nothing but a tool needs an approval.
void TellMcp(const RequestContext& context, Span& call) {
  if (!context.backend->is_mcp() || !IsEndpointMessage(*context.backend, context.request)) return;
  call.rpc = "tools/call";
  if (context.tool == nullptr || context.reading == nullptr) return;
  call.called = CodecOf(*context.backend).Spelled(*context.tool, context.reading->call_name);
}

// The span of the call that asked for the approval, as far as its attempts repeat it. It was told
// of when that call was answered.
Span CallOf(const RequestContext& context, const Result<Outcome>& outcome) {
  Span call;
  call.trace.Set(context.trace.trace_id);
  call.id.Set(context.trace.parent_id);
  call.policy = context.policy;
  call.tool = context.tool;
  call.backend = context.backend;
  call.method.Set(context.request.method);
  call.effect = "write";
  call.event = PrintRowId(context.approved);
  call.operation = context.approved;
  call.has_tool_error = context.has_tool_error;
  TellMcp(context, call);
  if (outcome) {
    const HttpResponse& told = outcome->local ? outcome->local->response : outcome->answer.response;
    call.outcome = OutcomeOf(told);
    if (const auto* event = FindHeader(told.headers, "Recourse-Event")) call.event = *event;
    if (const auto* flow = FindHeader(told.headers, "Recourse-Flow")) {
      call.flow = FlowLabel(*context.policy, *flow, context.trace.trace_id);
    }
  }
  return call;
}

}  // namespace

ApprovalService::ApprovalService(const Parts& parts)
    : metrics_(parts.metrics),
      webhook_(parts.webhook),
      clock_(parts.clock),
      executor_(parts.worker.thread),
      runner_({.ledger = parts.ledger,
               .executor = parts.worker.thread,
               .timer = parts.worker.thread,
               .clock = parts.clock,
               .policy = [&versions = parts.versions](
                             const Digest& asked) { return versions.InForce(asked); },
               .read_secret = ReadSecretFile,
               .send = [this, &worker = parts.worker](
                           RequestContext& context) { return Send(worker, context); },
               .tell = [this](const Event& event) { Tell(event); },
               .keep = KeepOwnWithin(parts.worker.services.budget)}),
      api_({.ledger = parts.ledger,
            .runner = runner_,
            .clock = parts.clock,
            .policy = [&versions = parts.versions](const Digest& asked) {
              return versions.InForce(asked);
            }}) {}

Task<Result<Outcome>> ApprovalService::Send(Worker& worker, RequestContext& context) {
  const std::shared_ptr<PolicyView> view = worker.view;
  context.is_traced = worker.services.tracer != nullptr && IsSampled(context.trace);
  ++sending_;
  Result<Outcome> outcome = co_await FromIdempotency(worker.chain)(context);
  --sending_;
  RequestRecord record;
  record.backend = context.backend;
  record.effect = "write";
  NoteAttempts(context, worker.span_ids, record);
  // The moment in which a reload reaches this thread is missing from the metrics.
  if (view->policy == context.policy) view->metrics.CountTries(record);
  if (context.is_traced) TellAttempts(CallOf(context, outcome), record, *worker.services.tracer);
  co_return outcome;
}

void ApprovalService::Start() {
  sends_ = true;
  PostJob(executor_, [this] { Spawn(runner_.Run(), [this] { sends_ = false; }); });
}

void ApprovalService::Tell(const Event& event) {
  metrics_.approvals.Add({{"result", ResultOf(event)}}).Increment();
  const bool is_new = event.phase == Phase::kClaimed && event.cause == Cause::kAsked;
  if (is_new) {
    webhook_.Tell(event);
  } else if (event.phase != Phase::kClaimed) {
    const std::int64_t waited_ms = ToUnixMillis(clock_.WallNow()) - event.approval->asked_ms;
    metrics_.approval_wait.Observe(static_cast<double>(std::max<std::int64_t>(0, waited_ms)) / 1e3);
  }
  Log(LogLevel::kInfo, is_new ? "a call waits for a human" : "a call that waited was decided",
      {{"operation", PrintRowId(event.operation)},
       {"tool", event.tool},
       {"caller", event.caller},
       {"result", ResultOf(event)},
       {"detail", event.detail}});
}

}  // namespace recourse
