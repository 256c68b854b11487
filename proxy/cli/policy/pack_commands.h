// `recourse pack`: policies of well-known APIs.
#pragma once

#include <CLI/CLI.hpp>

namespace recourse {

void AddPacks(CLI::App& app, int& exit_code);

}  // namespace recourse
