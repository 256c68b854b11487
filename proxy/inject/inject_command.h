// The command `recourse inject`.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `exit_code` outlives `app`.
void AddInject(CLI::App& app, int& exit_code);

}  // namespace recourse
