// What a process is started with. Flags win over RECOURSE_* variables, those over these defaults.
#pragma once

#include <cstdint>
#include <string>

#include "proxy/base/clock.h"
#include "proxy/base/limits.h"

namespace recourse {

struct Config {
  std::string policy;
  std::string data;
  std::string listen = "127.0.0.1:19080";
  std::string admin = "127.0.0.1:19081";
  std::string probes = "127.0.0.1:19082";
  std::string ports_file;        // empty: not written
  std::string admin_token_file;  // empty: every admin request is refused
  std::string access_log = "-";
  // Address space that the ledger may grow into; disk is used as it fills.
  std::uint64_t ledger_bytes_max = std::uint64_t{64} << 30;
  int threads = 1;
  Millis drain_timeout = limits::kDrainTimeout;
};

// Exit codes of the process, documented in the README.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRuntime = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitPolicy = 3;
inline constexpr int kExitLedger = 4;

}  // namespace recourse
