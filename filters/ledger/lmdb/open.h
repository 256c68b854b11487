// The parts of an LMDB ledger, for who puts something between them and the engine.
#pragma once

#include <expected>
#include <string>

#include "filters/ledger/engine/engine.h"
#include "filters/ledger/ledger.h"
#include "filters/ledger/lmdb/lmdb_ledger.h"

namespace recourse {

// Locks the directory and opens log and index. Fails with a line for people.
std::expected<LedgerParts, std::string> OpenLmdbParts(const LmdbLedgerOptions& options);

}  // namespace recourse
