// A policy held against the operators file that it runs with.
#pragma once

#include <string>
#include <vector>

#include "policy/language/loader.h"

namespace recourse {

// What the policy's approvals ask of the file, which may have errors of its own; an empty name
// stands for none. Blocking.
std::vector<PolicyProblem> ProblemsWithOperators(const LoadedPolicy& loaded,
                                                 const std::string& operators);

}  // namespace recourse
