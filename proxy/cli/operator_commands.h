// `recourse operators ...`: who may use the admin API. Without a running process.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "policy/language/loader.h"

namespace recourse {

// What the policy's approvals ask of an operators file, which may have errors of its own.
std::vector<PolicyProblem> ProblemsWithOperators(const LoadedPolicy& loaded,
                                                 const std::string& operators);

// `exit_code` outlives the app.
void AddOperators(CLI::App& app, int& exit_code);

}  // namespace recourse
