// The words of `recourse policy check` on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `policy` is the command above it. Sets `exit_code` when it has run (check.h).
void AddCheck(CLI::App& policy, int& exit_code);

}  // namespace recourse
