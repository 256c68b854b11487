// `recourse redirect show`, `install`, `remove`, `await` and `node`.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `exit_code` outlives the app.
void AddRedirect(CLI::App& app, int& exit_code);

}  // namespace recourse
