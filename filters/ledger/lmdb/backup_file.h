// Looks at a backup: a ledger's data.mdb that no process uses.
#pragma once

#include <expected>
#include <string>

#include "filters/ledger/ledger.h"

namespace recourse {

// Checks every page, every row and the hash chain; seals stay closed. Writes nothing. Fails with a
// line for people when the file cannot be read as a ledger.
std::expected<VerifyReport, std::string> VerifyLedgerFile(const std::string& path);

}  // namespace recourse
