// The value that a scope of the policy names in a call. Pure.
#pragma once

#include <string>

#include "filters/call/call_values.h"
#include "policy/model/policy.h"

namespace recourse {

// Of a scope of kind header, body, baggage or session; empty when it is not in the call. Of a body
// as canonical JSON.
std::string ScopeText(const Headers& headers, const CallBody& body, const ScopeRule& scope);

}  // namespace recourse
