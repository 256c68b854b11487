// One line that tells a call which waits apart from others like it. Pure.
#pragma once

#include <memory>
#include <string>

#include "filters/ledger/model/event.h"
#include "policy/model/policy.h"

namespace recourse {

// The policy's `summary` with the call's values, else the first values of its body; not cut within
// a character. Values whose names say that they are secret are left out, unless the policy names
// them. Empty: nothing is there to tell it by.
std::string SummaryOf(const Event& claim, std::shared_ptr<const Policy> policy);

}  // namespace recourse
