// What is said where the key of a row is not among the ledger's (Event::is_locked).
#pragma once

#include <string_view>

namespace recourse {

// VerifyReport::check: keys are missing, and nothing that can be checked without them is wrong.
inline constexpr std::string_view kMissingKeyCheck = "key";
// For people: what to do.
inline constexpr std::string_view kMissingKeyHelp =
    "put the line of that key into --ledger-key-file and send SIGHUP: every process of a ledger "
    "needs all its keys";

}  // namespace recourse
