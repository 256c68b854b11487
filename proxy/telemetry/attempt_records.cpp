#include "proxy/telemetry/attempt_records.h"

#include <algorithm>
#include <array>

namespace recourse {

std::string_view OutcomeOf(const HttpResponse& response) {
  constexpr std::array<std::string_view, 6> kOutcomes{"executed", "not_executed", "unknown",
                                                      "pending",  "rejected",     "compensated"};
  const std::string* const told = FindHeader(response.headers, "Recourse-Outcome");
  const auto known = told == nullptr ? kOutcomes.end() : std::ranges::find(kOutcomes, *told);
  return known == kOutcomes.end() ? std::string_view() : *known;
}

void NoteAttempts(const RequestContext& context, SpanIds& ids, RequestRecord& record) {
  record.attempts = context.attempts;
  record.peer.Set(context.peer);
  record.reused = context.was_reused;
  const std::size_t tries = std::min(context.tries.size(), record.tries.size());
  for (std::size_t i = 0; i < tries; ++i) {
    const DispatchTry& from = context.tries[i];
    RequestRecord::Try& to = record.tries.at(i);
    to = {from.began,
          from.ended,
          from.status,
          from.error ? FactsOf(*from.error).slug : std::string_view(),
          {}};
    record.with_backend += from.ended - from.began;
    if (context.is_traced && from.was_sent) to.span_id.Set(context.attempt_span);
    if (context.is_traced && !from.was_sent) ids.Fill(to.span_id);
  }
}

void TellAttempts(const Span& call, const RequestRecord& record, SpanQueue& tracer) {
  for (std::size_t i = 0; i < record.tries.size(); ++i) {
    const RequestRecord::Try& one = record.tries.at(i);
    if (one.ended == MonoTime{}) break;
    Span attempt = call;
    attempt.of = Span::Of::kAttempt;
    attempt.parent = call.id;
    attempt.id = one.span_id;
    attempt.began = one.began;
    attempt.ended = one.ended;
    attempt.error = one.error;
    attempt.status = one.status;
    attempt.resend_count = static_cast<int>(i);
    attempt.is_replayed = false;
    attempt.has_tool_error = call.has_tool_error && one.error.empty();
    attempt.peer = record.peer;
    tracer.Add(std::move(attempt));
  }
}

}  // namespace recourse
