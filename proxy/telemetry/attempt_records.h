// The attempts of a write at its backend, as its record, the metrics and the traces have them.
#pragma once

#include <string_view>

#include "filters/call_context.h"
#include "proxy/telemetry/request_record.h"
#include "proxy/telemetry/span_queue.h"

namespace recourse {

// What an answer's Recourse-Outcome says, as a text that outlives the answer; empty: nothing known.
std::string_view OutcomeOf(const HttpResponse& response);

// Puts attempts, backend address and times of a write that has ended into its record; if it is
// traced, also the ids of their spans. `ids` are of the thread.
void NoteAttempts(const RequestContext& context, SpanIds& ids, RequestRecord& record);

// One span for each attempt of the record, under the span `call`.
void TellAttempts(const Span& call, const RequestRecord& record, SpanQueue& tracer);

}  // namespace recourse
