#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "policy/language/config_reader.h"
#include "proxy/cli/commands.h"
#include "proxy/cli/process_client.h"

namespace recourse {

void AddProcess(CLI::App& app, const ApiClient& client,
                const std::function<void(CLI::App&)>& add_admin_options, int& exit_code) {
  CLI::App* status = app.add_subcommand("status", "Say how a running process is, on one screen");
  add_admin_options(*status);
  status->callback([&client, &exit_code] { exit_code = ShowStatus(client, std::cout, std::cerr); });

  const auto wait = std::make_shared<std::string>();
  CLI::App* drain = app.add_subcommand(
      "drain", "Have a running process take no more calls, and finish what it has begun");
  drain
      ->add_option("--wait", *wait,
                   "Return when nothing is being worked on any more, or fail after that time")
      ->check([](const std::string& text) {
        return ParseDuration(text) ? std::string()
                                   : "'" + text + "' is not a duration such as 500ms, 25s or 2m";
      });
  add_admin_options(*drain);
  drain->callback([wait, &client, &exit_code] {
    exit_code = DrainProcess(client, ParseDuration(*wait), std::cout, std::cerr);
  });

  const auto level = std::make_shared<std::string>();
  CLI::App* log_level =
      app.add_subcommand("log-level", "Say, or set, how much a running process logs");
  log_level->add_option("level", *level, "debug, info, warn or error; without it: say it")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}));
  add_admin_options(*log_level);
  log_level->callback([level, &client, &exit_code] {
    exit_code = ShowLogLevel(client, *level, std::cout, std::cerr);
  });
}

}  // namespace recourse
