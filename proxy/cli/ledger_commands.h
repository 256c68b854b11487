// The words of `recourse ledger ...` on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "proxy/cli/api_client.h"

namespace recourse {

// `add_admin_options` adds what every command to the admin API takes, and fills `client`.
void AddLedger(CLI::App& app, const ApiClient& client,
               const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);

}  // namespace recourse
