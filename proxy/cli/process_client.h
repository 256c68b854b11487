// The commands about a running process as a whole.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "proxy/base/clock.h"
#include "proxy/base/json/json.h"
#include "proxy/cli/api_client.h"

namespace recourse {

// Whether new writes are let through, and why not, in words; `ledger` is GET /ledger.
std::string WritesOf(const Json& ledger);

// Each prints to `out`, errors to `err`, and gives the exit code.
int ShowStatus(const ApiClient& client, std::ostream& out, std::ostream& err);
// How full and how old its ledger is.
int ShowLedger(const ApiClient& client, std::ostream& out, std::ostream& err);
// Has the process take no more calls. With `wait` it returns when nothing is being worked on, or
// fails with kExitRuntime after that time.
int DrainProcess(const ApiClient& client, std::optional<Millis> wait, std::ostream& out,
                 std::ostream& err);
// Says how much is logged; sets it first unless `level` is empty.
int ShowLogLevel(const ApiClient& client, const std::string& level, std::ostream& out,
                 std::ostream& err);

}  // namespace recourse
