// `recourse ca ...` and `recourse env`: what agents trust, and what they are started with. Without
// a running process.
#pragma once

#include <CLI/CLI.hpp>

#include "proxy/config/config.h"

namespace recourse {

// `exit_code` outlives the app.
void AddCa(CLI::App& app, int& exit_code);
void AddEnv(CLI::App& app, int& exit_code);

// The options of `run` for interception.
void AddCaOptions(CLI::App& run, CaSettings& settings);

}  // namespace recourse
