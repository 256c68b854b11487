// The trace that one request belongs to, and its span in it.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "policy/model/policy.h"
#include "proxy/net/http1/message_head.h"
#include "proxy/telemetry/request_record.h"
#include "proxy/telemetry/span.h"
#include "proxy/telemetry/span_queue.h"

namespace recourse {

struct CallTrace {
  bool is_on = false;       // the call is traced
  bool is_clients = false;  // the trace is the client's
  TraceIdText trace;        // empty: traces are off, or the client does not want this one
  SpanIdText id, parent;
  char flags[3] = {};

  // Only where traces are on: decides whether this call is traced, and as what.
  void Begin(std::string_view traceparent, const SpanQueue& tracer, SpanIds& ids,
             RequestRecord& record);
  // The field of a read that goes on. Gives where in `writer` the id of each attempt belongs.
  std::size_t AddTraceparent(HeadWriter& writer) const;
  // `room` has the traceparent at `at`.
  static void BeginTry(SpanIds& ids, RequestRecord& record, char* room, std::size_t at);
  void End(const RequestRecord& record, std::shared_ptr<const Policy> policy, MonoTime began,
           MonoTime ended, SpanQueue& tracer) const;
};

}  // namespace recourse
