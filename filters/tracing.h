// How filters tell of requests that they send on their own, for traces. Implemented by
// proxy/telemetry; a null pointer where traces are off.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "filters/call_context.h"
#include "filters/ledger/model/event.h"

namespace recourse {

// "00-<trace id>-<parent id>-<flags>".
std::string FormatTraceparent(const TraceContext& trace);

// The id of the span of the attempt whose request was sent, 16 hex digits. It follows from what the
// ledger holds, so that an undo after a restart can still name the span of what it undoes.
std::string AttemptSpanId(std::string_view trace_id, std::uint64_t operation,
                          std::uint16_t attempt);

// The flow as spans name it. Of one that the policy takes from a session or a credential a hash is
// told: it leaves the process.
std::string FlowLabel(const Policy& policy, std::string_view flow, std::string_view trace_id);

// A probe, an undo request, or a call of unknown outcome that is sent again. It outlives the event
// that it is about.
struct OwnRequest {
  enum class Kind : std::uint8_t { kProbe, kUndo, kResend };
  OwnRequest(Kind of, const Event& about, std::shared_ptr<const Policy> under, const Backend& to,
             int which_attempt)
      : kind(of),
        tool(about.tool),
        about_trace(about.trace_id),
        flow(about.flow),
        about_operation(about.operation),
        about_attempt(about.attempt),
        policy(std::move(under)),
        backend(&to),
        attempt(which_attempt) {}

  Kind kind;
  std::string tool, about_trace, flow;  // of what it asks about, undoes or repeats
  std::uint64_t about_operation;
  std::uint16_t about_attempt;
  std::shared_ptr<const Policy> policy;  // holds the backend
  const Backend* backend;
  int attempt;  // from 1
  MonoTime began{};
  TraceContext trace;  // parent_id is that of the span to come
  std::string parent;  // span of the attempt that it is about; empty: its trace is not that one's
  // Set when it has ended.
  std::string method;
  MonoTime ended{};
  int status = 0;                  // of the answer; 0: there was none
  std::optional<ErrorCode> error;  // why there was none
};

class SpanSink {
 public:
  virtual ~SpanSink() = default;
  // Says to which trace the request belongs, by when it `began`: that of what it is about while
  // this is recent and its spans were told, else one of its own. Thread-safe, as Ended.
  virtual void Begin(OwnRequest& request) = 0;
  // Does not wait.
  virtual void Ended(const OwnRequest& request) = 0;
};

// connection.Exchange() within a span of its own, whose id goes along; without `tracing` just that.
Task<Result<Answer>> ExchangeTraced(UpstreamConnection& connection, HttpRequest request,
                                    MonoTime deadline, std::size_t answer_bytes_max,
                                    SpanSink* tracing, const Clock& clock, OwnRequest told);

}  // namespace recourse
