// The words of the command line, each with its callbacks: what main.cpp joins.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "proxy/cli/api_client.h"
#include "proxy/config/config.h"

namespace recourse {

// `client` and `exit_code` outlive the app; `add_admin_options` adds what every command to the
// admin API takes, and fills `client`.
void AddApprovals(CLI::App& app, const ApiClient& client,
                  const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);
void AddFlows(CLI::App& app, const ApiClient& client,
              const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);
void AddLedger(CLI::App& app, const ApiClient& client,
               const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);
void AddOperations(CLI::App& app, const ApiClient& client,
                   const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);
// `status`, `drain` and `log-level`: a running process as a whole.
void AddProcess(CLI::App& app, const ApiClient& client,
                const std::function<void(CLI::App&)>& add_admin_options, int& exit_code);

// The others work without a running process.
// `ca ...` and `env`: what agents trust, and what they are started with.
void AddCa(CLI::App& app, int& exit_code);
void AddEnv(CLI::App& app, int& exit_code);
// The options of `run` for interception.
void AddCaOptions(CLI::App& run, CaSettings& settings);
// Who may use the admin API.
void AddOperators(CLI::App& app, int& exit_code);
// `redirect show`, `install`, `remove`, `await` and `node`.
void AddRedirect(CLI::App& app, int& exit_code);

}  // namespace recourse
