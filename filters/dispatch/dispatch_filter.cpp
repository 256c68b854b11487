#include "filters/dispatch/dispatch_filter.h"

#include "filters/answers.h"
#include "filters/ledger/ledger.h"
#include "proxy/base/crash_point.h"

namespace recourse {

HttpRequest UpstreamRequest(const RequestContext& context) {
  HttpRequest request = context.request;
  StripOwnFields(request.headers);
  if (IsLoggedOnly(context)) return request;
  SetHeader(request.headers, "Accept-Encoding", "identity");
  const std::string& field = context.backend->key_header;
  // A key that the client wrote into the very field the backend reads stays as the client wrote it.
  const bool is_clients =
      EqualsIgnoreCase(field, "Idempotency-Key") && FindHeader(request.headers, field) != nullptr;
  if (!field.empty() && !is_clients) SetHeader(request.headers, field, context.upstream_key);
  return request;
}

MonoTime AnswerDeadline(const RequestContext& context, MonoTime now) {
  Millis timeout = context.backend->timeout.value_or(limits::kWriteTimeout);
  if (context.tool != nullptr) timeout = context.tool->timeout.value_or(timeout);
  return now + timeout;
}

Task<Result<Outcome>> DispatchFilter::Handle(RequestContext& context, Next) {
  // Connecting and committing run side by side; only both together allow the first byte.
  if (++context.attempts == 1) context.deadline = AnswerDeadline(context, clock_.Now());
  context.connection = upstream_.Open(*context.backend);
  const Result<void> connected = co_await context.connection->Connected();
  if (!connected) {
    context.connection.reset();
    co_return std::unexpected(connected.error());
  }
  RC_CRASH_POINT("k03");
  if (const std::shared_ptr<PendingCommit> commit = std::move(context.commit)) {
    const Result<void> durable = co_await commit->Durable();
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
  const HttpRequest request = UpstreamRequest(context);
  Result<Answer> answer =
      co_await context.connection->Exchange(request, context.deadline, limits::kAnswerBytesMax);
  context.connection.reset();
  if (!answer) co_return std::unexpected(answer.error());
  Outcome outcome;
  outcome.answer = std::move(*answer);
  co_return outcome;
}

}  // namespace recourse
