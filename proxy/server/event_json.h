// Events as JSON for the admin API and the command line.
#pragma once

#include <cstdint>
#include <string>

#include "filters/ledger/ledger.h"

namespace recourse {

// "2026-11-20T10:00:00.123Z"
std::string Rfc3339Millis(std::int64_t unix_millis);
// Appends one event as a JSON object. Never answers' bodies or rendered requests: they may carry
// secrets.
void AppendEvent(std::string& out, const Event& event);
std::string ToJson(const VerifyReport& report);

}  // namespace recourse
