// `recourse console`: one page and one API for several ledgers.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

void AddConsole(CLI::App& app, int& exit_code);

}  // namespace recourse
