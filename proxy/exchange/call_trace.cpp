#include "proxy/exchange/call_trace.h"

#include <cstring>

#include "filters/call/codecs.h"
#include "filters/call/traceparent.h"
#include "proxy/telemetry/attempt_records.h"
#include "proxy/telemetry/span_queue.h"

namespace recourse {
namespace {

constexpr std::string_view kNoId = "0000000000000000";

}  // namespace

void CallTrace::Begin(std::string_view traceparent, const SpanQueue& tracer, SpanIds& ids,
                      RequestRecord& record) {
  *this = {};
  const auto client = ReadTraceparent(traceparent);
  if (client) {
    is_on = client->IsSampled();
    if (!is_on) return;
    is_clients = true;
    trace.Set(client->trace_id);
    parent.Set(client->parent_id);
    std::memcpy(flags, client->flags.data(), 2);
  } else {
    ids.Fill(trace);
    is_on = tracer.Samples(trace.view());
    std::memcpy(flags, is_on ? "01" : "00", 2);
    ids.Fill(id);
    if (!is_on) return;
    record.trace_id.Set(trace.view());
  }
  ids.Fill(id);
  record.span_id = id;
}

std::size_t CallTrace::AddTraceparent(HeadWriter& writer) const {
  char value[55];
  std::memcpy(value, "00-", 3);
  std::memcpy(value + 3, trace.text, 32);
  value[35] = '-';
  std::memcpy(value + 36, kNoId.data(), kNoId.size());
  value[52] = '-';
  std::memcpy(value + 53, flags, 2);
  writer.Add("traceparent", {value, sizeof value});
  return writer.view().size() - (kNoId.size() + 3 + 2);  // "-01" and CRLF follow
}

void CallTrace::BeginTry(SpanIds& ids, RequestRecord& record, char* room, std::size_t at) {
  SpanIdText& id = record.tries.at(static_cast<std::size_t>(record.attempts) - 1).span_id;
  ids.Fill(id);
  std::memcpy(room + at, id.text, kNoId.size());
}

void CallTrace::End(const RequestRecord& record, std::shared_ptr<const Policy> policy,
                    MonoTime began, MonoTime ended, SpanQueue& tracer) const {
  Span call;
  call.of = Span::Of::kCall;
  call.trace = trace;
  call.id = id;
  call.parent = parent;
  call.began = began;
  call.ended = ended;
  call.policy = std::move(policy);
  call.tool = record.tool;
  call.backend = record.backend;
  call.method = record.method;
  call.effect = record.effect;
  call.error = record.error;
  call.outcome = record.outcome;
  call.event = record.event;
  call.flow = record.flow;
  call.operation = record.operation;
  call.has_tool_error = record.has_tool_error;
  call.rpc = record.rpc;
  if (call.tool != nullptr) call.called = CodecOf(*call.backend).Spelled(*call.tool, record.called);
  call.status = record.status;
  call.is_replayed = record.replayed;
  TellAttempts(call, record, tracer);
  tracer.Add(std::move(call));
}

}  // namespace recourse
