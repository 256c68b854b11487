// The words of `recourse policy import` on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `policy` is the command above it. Sets `exit_code` when one of them has run.
void AddImports(CLI::App& policy, int& exit_code);

}  // namespace recourse
