#include "filters/trace/trace_filter.h"

#include "filters/call/call_values.h"
#include "filters/call/traceparent.h"
#include "filters/tracing.h"
#include "proxy/base/crypto/hash.h"

namespace recourse {
namespace {

// What a client wrote into its message tells more of the call than what its HTTP library did.
std::optional<TraceContext> ClientTrace(RequestContext& context) {
  if (context.backend != nullptr && IsEndpointMessage(*context.backend, context.request)) {
    if (auto body = ReadingOf(context)) context.reading = std::move(*body);
    auto trace =
        context.reading ? ParseTraceparent(context.reading->message_traceparent) : std::nullopt;
    if (trace) return trace;
  }
  const std::string* field = FindHeader(context.request.headers, "traceparent");
  return field == nullptr ? std::nullopt : ParseTraceparent(*field);
}

}  // namespace

std::string TraceFilter::RandomId(std::size_t bytes) {
  RC_CHECK(bytes <= fresh_.size());
  if (fresh_.size() - used_ < bytes) {
    random_.Fill(fresh_);
    used_ = 0;
  }
  unsigned char* const raw = &fresh_[used_];
  used_ += bytes;
  raw[0] |= 1;  // all zeros is invalid
  return ToHex(std::string_view(reinterpret_cast<const char*>(raw), bytes));
}

Task<Result<Outcome>> TraceFilter::Handle(RequestContext& context, Next next) {
  if (context.span_id) {
    // The exchange has decided what the trace is, and whether it is sampled.
    if (!context.trace.from_client) RemoveHeader(context.request.headers, "tracestate");
  } else if (auto trace = ClientTrace(context)) {
    context.trace = std::move(*trace);
  } else {
    context.trace = TraceContext();
    context.trace.trace_id = RandomId(16);
    RemoveHeader(context.request.headers, "tracestate");
  }
  context.trace.parent_id = context.span_id ? *context.span_id : RandomId(8);
  SetHeader(context.request.headers, "traceparent", FormatTraceparent(context.trace));
  return next(context);
}

}  // namespace recourse
