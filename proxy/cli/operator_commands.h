// `recourse operators ...`: who may use the admin API. Without a running process.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `exit_code` outlives the app.
void AddOperators(CLI::App& app, int& exit_code);

}  // namespace recourse
