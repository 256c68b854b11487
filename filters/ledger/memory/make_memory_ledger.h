// A ledger that forgets all when it ends, for tests.
#pragma once

#include <cstdint>
#include <memory>

#include "filters/ledger/ledger.h"

namespace recourse {

// Same meaning, nothing durable; decides and completes inside the call, on the caller's thread, so
// that a test controls every step. Joins end when the operation moves or `clock` passes their
// deadline and any other verb is called.
// `stream`: of its ids.
std::unique_ptr<Ledger> MakeMemoryLedger(const Clock& clock, std::uint32_t stream = 0);

}  // namespace recourse
