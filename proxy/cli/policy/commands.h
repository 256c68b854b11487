// The words of `recourse policy check`, `policy import` and `pack` on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `policy` is the command above it. Sets `exit_code` when it has run (check.h).
void AddCheck(CLI::App& policy, int& exit_code);
// The same; sets `exit_code` when one of them has run.
void AddImports(CLI::App& policy, int& exit_code);
// Policies of well-known APIs.
void AddPacks(CLI::App& app, int& exit_code);

}  // namespace recourse
