// The spans of one call: its own, and one for each attempt at the backend.
#include <cstring>

#include "filters/call/traceparent.h"
#include "proxy/exchange/read_exchange.h"
#include "proxy/telemetry/attempts.h"
#include "proxy/telemetry/tracer.h"

namespace recourse {
namespace {

constexpr std::string_view kNoId = "0000000000000000";

}  // namespace

// Only where traces are on: decides whether this call is traced, and as what.
void Session::BeginSpan() {
  span_ = {};
  const auto parent = ReadTraceparent(head_.traceparent);
  if (parent) {
    span_.is_on = parent->IsSampled();
    if (!span_.is_on) return;
    span_.is_clients = true;
    span_.trace.Set(parent->trace_id);
    span_.parent.Set(parent->parent_id);
    std::memcpy(span_.flags, parent->flags.data(), 2);
  } else {
    worker_.span_ids.Fill(span_.trace);
    span_.is_on = services_.tracer->Samples(span_.trace.view());
    std::memcpy(span_.flags, span_.is_on ? "01" : "00", 2);
    worker_.span_ids.Fill(span_.id);
    if (!span_.is_on) return;
    record_.trace_id.Set(span_.trace.view());
  }
  worker_.span_ids.Fill(span_.id);
  record_.span_id = span_.id;
}

// The field of a read that goes on, with room for the id of each attempt.
void Session::AddTraceparent(ReadExchange& exchange, HeadWriter& writer) {
  char value[55];
  std::memcpy(value, "00-", 3);
  std::memcpy(value + 3, span_.trace.text, 32);
  value[35] = '-';
  std::memcpy(value + 36, kNoId.data(), kNoId.size());
  value[52] = '-';
  std::memcpy(value + 53, span_.flags, 2);
  writer.Add("traceparent", {value, sizeof value});
  exchange.span_id_at = writer.view().size() - (kNoId.size() + 3 + 2);  // "-01" and CRLF follow
}

void Session::BeginTrySpan(ReadExchange& exchange) {
  SpanIdText& id = record_.tries.at(static_cast<std::size_t>(record_.attempts) - 1).span_id;
  worker_.span_ids.Fill(id);
  std::memcpy(exchange.request_room.data() + exchange.span_id_at, id.text, kNoId.size());
}

void Session::EndSpan(MonoTime ended) {
  Span call;
  call.of = Span::Of::kCall;
  call.trace = span_.trace;
  call.id = span_.id;
  call.parent = span_.parent;
  call.began = started_;
  call.ended = ended;
  call.policy = view_->policy;
  call.tool = record_.tool;
  call.backend = record_.backend;
  call.method = record_.method;
  call.effect = record_.effect;
  call.error = record_.error;
  call.outcome = record_.outcome;
  call.event = record_.event;
  call.status = record_.status;
  call.is_replayed = record_.replayed;
  TellAttempts(call, record_, *services_.tracer);
  services_.tracer->Add(std::move(call));
}

}  // namespace recourse
