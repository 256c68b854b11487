#include "filters/tracing.h"

#include "proxy/base/crypto/hash.h"

namespace recourse {

std::string FormatTraceparent(const TraceContext& trace) {
  return "00-" + trace.trace_id + "-" + trace.parent_id + "-" + trace.flags;
}

std::string AttemptSpanId(std::string_view trace_id, std::uint64_t operation,
                          std::uint16_t attempt) {
  std::string parts;
  AppendPart(parts, "recourse attempt span");
  AppendPart(parts, trace_id);
  AppendPart(parts, std::to_string(operation));
  AppendPart(parts, std::to_string(attempt));
  std::string id = ToHex(Sha256(parts)).substr(0, 16);
  if (id.find_first_not_of('0') == std::string::npos) id.back() = '1';  // all zeros is invalid
  return id;
}

Task<Result<Answer>> ExchangeTraced(UpstreamConnection& connection, HttpRequest request,
                                    MonoTime deadline, std::size_t answer_bytes_max,
                                    SpanSink* tracing, const Clock& clock, OwnRequest told) {
  if (tracing == nullptr) {
    co_return co_await connection.Exchange(request, deadline, answer_bytes_max);
  }
  told.trace = tracing->NewTrace();
  SetHeader(request.headers, "traceparent", FormatTraceparent(told.trace));
  told.method = request.method;
  told.began = clock.Now();
  auto answer = co_await connection.Exchange(request, deadline, answer_bytes_max);
  told.ended = clock.Now();
  if (answer) {
    told.status = answer->response.status;
  } else {
    told.error = answer.error().code();
  }
  tracing->Ended(told);
  co_return answer;
}

}  // namespace recourse
