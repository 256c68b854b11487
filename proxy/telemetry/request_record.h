// One access log line per request, made without allocation: everything that the
// policy fixes is rendered once.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"
#include "proxy/telemetry/access_log.h"
#include "proxy/telemetry/ingress_mode.h"
#include "proxy/telemetry/span.h"

namespace recourse {

// What the access log and the metrics say of one request. Never header values, queries or bodies.
struct RequestRecord {
  // One attempt at the backend. A read's ends with the head of its answer.
  struct Try {
    MonoTime began{}, ended{};
    int status = 0;          // of the backend's answer; 0: there was none
    std::string_view error;  // slug; empty: it answered
    SpanIdText span_id;      // of a traced call
  };
  static constexpr std::size_t kTriesMax =
      std::max(limits::kReadAttemptsMax, limits::kUnsentAttemptsMax);

  const Tool* tool = nullptr;
  const Backend* backend = nullptr;
  std::string_view effect = "none";
  IngressMode ingress_mode = IngressMode::kReverse;
  std::string_view original;  // where a redirected connection was to go; outlives the record
  std::string_view caller;  // identity by certificate; needs no escape in JSON; outlives the record
  std::string_view error;   // slug of an answer of ours
  MethodText method;
  ShortText<32> trace_id;
  SpanIdText span_id;        // ours; empty: the call is not traced
  std::string_view outcome;  // of a write, as in Recourse-Outcome
  PeerText peer;             // address of the backend in the last attempt
  int status = 0;
  int attempts = 0;
  std::array<Try, kTriesMax> tries{};       // those that have ended
  std::chrono::nanoseconds with_backend{};  // all of them
  // Time until an answer could be sent, less that of the tries; unset: there was none.
  std::optional<std::chrono::nanoseconds> overhead;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  bool replayed = false;
  bool reused = false;  // upstream connection
  bool client_gone = false;
  bool host_differs = false;  // an absolute target named another host than the Host field
  std::string event;
  std::string flow;             // of a write, as FlowLabel() has it
  std::uint64_t operation = 0;  // likewise; 0: none
  bool has_tool_error = false;  // the tool itself says that it failed
  std::string authority;        // of a CONNECT: its target, whose characters need no escape
  std::string server_name;      // that TLS in its tunnel asked for; likewise
  std::string_view decision;    // about its tunnel, or what became of a notification
  std::string_view rpc;         // the method that a message names, of a fixed set
  std::string called;           // the tool that a message names, fit to be shown
  std::string_view verdict;     // of observe mode
  std::string reason;           // why it would be refused: a slug, ": ", and what it means here

  // The last attempt ended now; `slug` empty: with an answer.
  void EndTry(MonoTime now, int answer, std::string_view slug) {
    Try& last = tries.at(static_cast<std::size_t>(attempts) - 1);
    last.ended = now;
    last.status = answer;
    last.error = slug;
    with_backend += last.ended - last.began;
  }
};

// One per I/O thread. Not thread-safe; the AccessLog below it is.
class RequestLog {
 public:
  // All outlive it.
  RequestLog(AccessLog& log, const Clock& clock, const Policy& policy);

  void Append(const RequestRecord& record, std::chrono::nanoseconds duration);

 private:
  // What the calls of a tool mostly have in common: from the level to the path.
  struct Common {
    std::string text;
    MethodText method;
    int status = -1;
    bool is_warning = false;
    std::string_view effect;
    IngressMode ingress_mode = IngressMode::kReverse;
    const Backend* backend = nullptr;
  };
  std::string_view Second(std::int64_t unix_seconds);
  std::string_view CommonOf(const RequestRecord& record);

  AccessLog& log_;
  const Clock& clock_;
  const Tool* first_tool_;
  const Backend* first_backend_;
  std::vector<std::string> tools_;     // ,"tool":"x","path":"/x"
  std::vector<std::string> backends_;  // ,"backend":"x"
  std::vector<Common> common_;         // by tool; the last one of unlisted calls
  std::string tail_;                   // ,"policy":"..."}
  std::int64_t second_ = -1;
  std::string second_text_;  // {"ts":"2026-11-20T10:00:00.000Z"
};

}  // namespace recourse
