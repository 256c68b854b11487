// `recourse ca ...` and `recourse env`: what agents trust, and what they are started with. Without
// a running process.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

// `exit_code` outlives the app.
void AddCa(CLI::App& app, int& exit_code);
void AddEnv(CLI::App& app, int& exit_code);

}  // namespace recourse
