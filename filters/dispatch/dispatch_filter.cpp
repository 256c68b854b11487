#include "filters/dispatch/dispatch_filter.h"

#include <memory>
#include <optional>
#include <utility>

#include "filters/call/call_values.h"
#include "filters/call/upstream_request.h"
#include "filters/ledger/ledger.h"
#include "filters/tracing.h"
#include "proxy/base/crash_point.h"

namespace recourse {

namespace {

// It lives as long as its policy, unless it is made for this call.
std::shared_ptr<const Backend> BackendOf(const RequestContext& context) {
  std::optional<Backend> own;
  (void)CalledFor(context.tool, *context.backend, own);
  if (!own) return {context.policy, context.backend};
  own->write_reuse = false;  // no other call would find its connection
  return std::make_shared<const Backend>(std::move(*own));
}

}  // namespace

MonoTime AnswerDeadline(const RequestContext& context, MonoTime now) {
  Millis timeout = context.backend->timeout.value_or(limits::kWriteTimeout);
  if (context.tool != nullptr) timeout = context.tool->timeout.value_or(timeout);
  return now + timeout;
}

Task<Result<Outcome>> DispatchFilter::Handle(RequestContext& context, Next) {
  const MonoTime began = clock_.Now();
  if (++context.attempts == 1) context.deadline = AnswerDeadline(context, began);
  Result<Outcome> outcome = co_await Send(context);
  DispatchTry& ended = context.tries.emplace_back();
  ended.was_sent = outcome || outcome.error().delivery() != Delivery::kNotSent;
  ended.began = began;
  ended.ended = clock_.Now();
  if (outcome) {
    ended.status = outcome->answer.response.status;
  } else {
    ended.error = outcome.error().code();
  }
  co_return outcome;
}

Task<Result<Outcome>> DispatchFilter::Send(RequestContext& context) {
  // Connecting and committing run side by side; only both together allow the first byte.
  context.connection = upstream_.OpenForCall(BackendOf(context));
  const Result<void> connected = co_await context.connection->Connected();
  if (!connected) {
    context.connection.reset();
    co_return std::unexpected(connected.error());
  }
  context.peer = context.connection->Peer();
  RC_CRASH_POINT("k03");
  if (context.commit != nullptr) {
    const Result<void> durable = co_await context.commit->Durable();
    if (!durable) {
      context.connection.reset();
      co_return std::unexpected(
          Error(ErrorCode::kLedgerUnavailable, durable.error().detail(), Delivery::kNotSent));
    }
  }
  RC_CRASH_POINT("k05");
  if (clock_.Now() >= context.deadline) {
    context.connection.reset();
    co_return std::unexpected(Error(ErrorCode::kNotSent,
                                    "connecting and remembering took the whole timeout",
                                    Delivery::kNotSent));
  }
  // The body is lent, as it may be large; a further attempt needs it again.
  HttpRequest request{context.request.method, context.request.target,
                      UpstreamFields(context, context.upstream_key),
                      std::move(context.request.body)};
  const std::vector<Insertion> put = PutIn(context.placed, request);
  for (const Header& field : context.credentials) {
    SetHeader(request.headers, field.first, field.second);
  }
  if (!context.if_match.empty()) SetHeader(request.headers, "If-Match", context.if_match);
  if (context.is_traced) {
    TraceContext trace = context.trace;
    trace.parent_id = context.attempt_span;
    SetHeader(request.headers, "traceparent", FormatTraceparent(trace));
  }
  context.connection->PassInterimTo(context.interim);
  context.connection->HoldAnswerFor(context.keeper);
  context.connection->RelayAnswerTo(context.relay);
  if (context.commit != nullptr) context.connection->SendOnlyWith(context.commit->permit());
  if (context.approved != 0) context.connection->MayOpenSession();
  if (context.reading) context.connection->KnowsMessageId(context.reading->message_id);
  Result<Answer> answer =
      co_await context.connection->Exchange(request, context.deadline, limits::kAnswerBytesMax);
  TakeOut(put, request.body);
  context.request.body = std::move(request.body);
  context.was_reused = context.connection->IsReused();
  context.connection.reset();
  if (!answer) co_return std::unexpected(answer.error());
  Outcome outcome;
  context.has_tool_error = answer->message == MessageKind::kToolError;
  outcome.answer = std::move(*answer);
  co_return outcome;
}

}  // namespace recourse
