// How a repeat is written where its operation was sent before.
#pragma once

#include <memory>

#include "filters/call/call_values.h"
#include "filters/ledger/ledger.h"

namespace recourse {

// The backend knows the operation by what its first attempt carried, so the repeat gets the key of
// that one, or none where it had none. `is_named`: the agent's own name of the call is what makes
// it this operation; a key that is not makes no other one of it.
void SpellAsBefore(const Event& known, std::shared_ptr<const CallBody> body, bool is_named,
                   RequestContext& context);

}  // namespace recourse
