// What a flow says of a call that would be sent. Pure.
#pragma once

#include <cstdint>

#include "filters/ledger/ledger.h"
#include "filters/ledger/rules/known.h"

namespace recourse {

// The flow that forbids it; 0: none. A repeat belongs to the flow that its operation began in.
Judged<std::uint64_t> FenceOf(const NewOperation& call, const FoundOperation* found, Known& known);

// An undo without its flow in UNDOING, or of a step without an effect, is a mistake of ours.
Judged<void> CheckUndo(const NewOperation& call, Known& known);

}  // namespace recourse
