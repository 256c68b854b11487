// `recourse help`: the meaning of exit codes, and of the problems that agents may see.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `app` and `exit_code` outlive it.
void AddHelp(CLI::App& app, int& exit_code);

}  // namespace recourse
