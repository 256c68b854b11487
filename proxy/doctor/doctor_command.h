// `recourse doctor`: whether a set-up works, and what to do where it does not.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "proxy/cli/api_client.h"

namespace recourse {

// All outlive the app.
void AddDoctor(CLI::App& app, const ApiClient& client,
               const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);

}  // namespace recourse
