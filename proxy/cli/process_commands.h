// `recourse status`, `drain` and `log-level`: a running process as a whole.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "proxy/cli/api_client.h"

namespace recourse {

// `client` and `exit_code` outlive the app.
void AddProcess(CLI::App& app, const ApiClient& client,
                const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);

}  // namespace recourse
