// Tools that a policy lists already, found by what their calls look like. Pure.
#pragma once

#include <string>
#include <vector>

#include "policy/model/policy.h"
#include "policy/suggest/infer_identity.h"
#include "policy/suggest/seen_tools.h"

namespace recourse {

// nullptr: the policy lists none for these calls.
const Tool* ListedTool(const Policy& policy, const std::vector<Sighting>& seen,
                       const SeenTool& tool);

// What the policy says tells the intents of its calls, in place of what was inferred. False: it
// looks at what no sighting holds, such as a header.
bool TakeIdentityOf(const Tool& listed, const SeenTool& tool, SuggestedIdentity& identity);

}  // namespace recourse
