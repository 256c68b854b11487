// The words of `recourse drill` on the command line.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// Sets `exit_code` when the command has run (drill.h).
void AddDrill(CLI::App& app, int& exit_code);

}  // namespace recourse
