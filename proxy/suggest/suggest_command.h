// The words of `recourse policy suggest` on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `policy` is the command above it. Sets `exit_code` when it has run (suggest.h).
void AddSuggest(CLI::App& policy, int& exit_code);

}  // namespace recourse
