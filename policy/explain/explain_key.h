// What names a write, and which flow it is of, in words. Parts of policy/explain/explain.h.
#pragma once

#include <string>

#include "policy/explain/explain.h"
#include "policy/model/policy.h"
#include "policy/template/template.h"

namespace recourse {

// Adds the parts of the key in the order in which it is made (filters/key/key.h).
void AddKey(const Policy& policy, const Tool& tool, const ExplainedCall& call,
            const CallValues& values, Explanation& out);

// Which flow a write belongs to that no trace joins with others; empty: a trace does, or the agent.
std::string FlowWithoutTrace(const FlowRules& rules, const ExplainedCall& call,
                             const CallValues& values);

}  // namespace recourse
