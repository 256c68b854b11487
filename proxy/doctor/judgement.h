// What a set-up's facts mean, and what to do about them. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "policy/model/policy.h"
#include "proxy/base/clock.h"
#include "proxy/doctor/check.h"

namespace recourse {

// One of our own ports, as whoever calls it meets it.
struct PortFacts {
  std::string flag;     // "--listen"
  std::string address;  // as it was given
  std::string wanted;   // what GET /.recourse/port should say
  std::string failure;  // why nothing was said; empty: something was
  int status = 0;
  std::string said;
};
Check JudgePort(const PortFacts& facts);

// GET /ready of the probes' port.
struct ReadyFacts {
  std::string failure;
  int status = 0;
  std::string text;
};
Check JudgeReady(const ReadyFacts& facts);

// Whoever the command's credentials are.
struct OperatorFacts {
  std::string failure;  // they are not taken
  std::string name;
  std::vector<std::string> roles;
};
Check JudgeOperator(const OperatorFacts& facts);

struct BackendFacts {
  std::vector<std::string> addresses;  // that its name leads to
  std::string resolve_failure;
  std::string tls_files_failure;         // of the policy's files
  std::optional<std::string> unreached;  // why the last address could not be connected to
  Millis connect{0};
  std::string http_failure;  // no answer, or no TLS
  int status = 0;
  Millis first_byte{0};
  std::string date;  // of its answer; empty: none
};
Check JudgeBackend(const Backend& backend, const BackendFacts& facts);

struct DiskFacts {
  std::string directory;  // that exists: --data, or the nearest one above it
  bool is_data = true;    // it is --data itself
  std::string failure;    // it cannot be written
  std::string file_system, refusal;
  std::uint64_t free_bytes = 0;
  std::chrono::microseconds flush{0};  // the median of a few
};
Check JudgeDisk(const DiskFacts& facts);

// `files`: that a process started here may open; `connections`: of --connections-max.
Check JudgeFiles(std::uint64_t files, std::uint64_t connections);

// `is_synchronized`: what the kernel says; `dates`: of backends, with how far they are ahead.
Check JudgeClock(bool is_synchronized,
                 const std::vector<std::pair<std::string, std::chrono::seconds>>& dates);

// The variables as they are here: name and value, of those that are set.
Check JudgeProxyVariables(const std::vector<std::pair<std::string, std::string>>& variables,
                          const std::string& listen, const Policy& policy);

// Writes since the process began, and how many of them no trace or session joined to a flow;
// nullopt: nobody could be asked, `why` says so.
struct TraceFacts {
  std::optional<std::pair<std::uint64_t, std::uint64_t>> writes;
  std::string why;
};
Check JudgeTraces(const TraceFacts& facts);

}  // namespace recourse
