// One access log line per request (kubernetes.md e.4), made without allocation: everything that the
// policy fixes is rendered once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "proxy/base/clock.h"
#include "proxy/base/limits.h"
#include "proxy/server/access_log.h"

namespace recourse {

// What the access log says of one request. Never header values, queries or bodies.
struct RequestRecord {
  const Tool* tool = nullptr;
  const Backend* backend = nullptr;
  std::string_view effect = "none";
  std::string_view error;  // slug of an answer of ours
  char method[limits::kMethodBytesMax + 1] = {};
  char trace_id[33] = {};
  int status = 0;
  int attempts = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  bool replayed = false;
  bool reused = false;  // upstream connection
  bool client_gone = false;
  std::string event;
};

// One per I/O thread. Not thread-safe; the AccessLog below it is.
class RequestLog {
 public:
  // All outlive it.
  RequestLog(AccessLog& log, const Clock& clock, const Policy& policy);

  void Append(const RequestRecord& record, std::chrono::nanoseconds duration);

 private:
  std::string_view Second(std::int64_t unix_seconds);

  AccessLog& log_;
  const Clock& clock_;
  const Tool* first_tool_;
  const Backend* first_backend_;
  std::vector<std::string> tools_;     // ,"tool":"x","path":"/x"
  std::vector<std::string> backends_;  // ,"backend":"x"
  std::string tail_;                   // ,"policy":"..."}
  std::int64_t second_ = -1;
  std::string second_text_;  // {"ts":"2026-11-20T10:00:00.
};

}  // namespace recourse
