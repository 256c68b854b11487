// How a ledger starts: the same for every EventLog.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "filters/ledger/engine/engine.h"

namespace recourse {

// Checks the tail of the hash chain, brings the index up to the log (or builds it anew), begins a
// new epoch and turns what was DISPATCHING into UNCERTAIN. Running it again after a crash in its
// middle gives the same. Fails with a line for people.
std::expected<std::unique_ptr<Engine>, std::string> StartEngine(LedgerParts parts,
                                                                const Clock& clock);

}  // namespace recourse
