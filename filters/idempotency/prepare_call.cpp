// What the ledger is asked about a call, made here or, of a large body, on another thread.
#include <utility>

#include "filters/idempotency/idempotency_filter.h"

namespace recourse {
namespace {

Outcome Refused(const RequestContext& context, const Error& error) {
  return LocalOutcome(MakeProblem(error.code(), RefusalDetail(context, error)));
}

void AddBefore(const RequestContext& context, NewOperation& operation) {
  operation.wants_before = !context.before;
  if (operation.wants_before) return;
  operation.event.state = context.before->state;
  if (!context.before->state) operation.event.detail = context.before->why;
}

}  // namespace

IdempotencyFilter::Prepared IdempotencyFilter::Prepare(RequestContext& context) const {
  // Where the caller wants it, as it is large; and so that it is not filled with zeros.
  Prepared prepared(std::in_place, nullptr);
  if (IsLoggedOnly(context)) {
    prepared = PrepareLoggedOnly(context, secret_, parts_.random);
    return prepared;
  }
  const auto done = PrepareCall(context, secret_, *prepared);
  context.is_forbidden = !done && IsForbidding(done.error());
  if (!done) {
    prepared = std::unexpected(Refused(context, done.error()));
    return prepared;
  }
  if (!context.needs_approval) KeepRequest(context, *prepared);
  if (ToolOf(context).before) AddBefore(context, prepared->operation);
  return prepared;
}

Task<IdempotencyFilter::Prepared> IdempotencyFilter::PrepareApart(RequestContext& context) const {
  Prepared prepared =
      std::unexpected(LocalOutcome(MakeProblem(ErrorCode::kOverloaded, kNoRoomApart)));
  (void)co_await context.keeper->RunApart(
      [&] {
        if (!IsLoggedOnly(context)) {
          auto reading = ReadingOf(context);
          if (!reading) {
            prepared = std::unexpected(Refused(context, reading.error()));
            return;
          }
          context.reading = std::move(*reading);  // for all that look into it
        }
        prepared = Prepare(context);
      },
      *context.executor);
  co_return prepared;
}

}  // namespace recourse
