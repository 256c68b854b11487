// `recourse help`: the meaning of exit codes, and of the problems that agents may see.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// Of what no help shows the usage has no sign either. Before commands are added.
void UseOwnHelp(CLI::App& app);

// `app` and `exit_code` outlive it.
void AddHelp(CLI::App& app, int& exit_code);

}  // namespace recourse
