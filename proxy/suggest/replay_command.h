// `recourse policy replay`: past calls under another policy, from an export of the ledger, or from
// what observe mode has seen.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `policy` is the command above it. Sets `exit_code` when it has run.
void AddReplay(CLI::App& policy, int& exit_code);

}  // namespace recourse
