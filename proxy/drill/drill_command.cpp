#include "proxy/drill/drill_command.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "policy/language/config_reader.h"
#include "proxy/drill/drill.h"

namespace recourse {
namespace {

std::string CheckTimeout(const std::string& text) {
  static constexpr Millis kLeast{100}, kMost{std::chrono::hours(24)};
  const auto timeout = ParseDuration(text);
  return timeout && *timeout >= kLeast && *timeout <= kMost
             ? std::string()
             : "'" + text + "' is not a duration from 100ms to 24h, such as 10s or 2m";
}

void TakeDoubts(Ambiguities& doubts, const std::vector<std::string>& claims) {
  for (const std::string& claim : claims) {
    for (const Doubt& one : kDoubts) {
      if (claim == one.name) doubts.*one.of = true;
    }
  }
}

std::vector<std::string> NamesOfDoubts() {
  std::vector<std::string> names;
  for (const Doubt& one : kDoubts) names.emplace_back(one.name);
  return names;
}

}  // namespace

void AddDrill(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<DrillOptions>();
  CLI::App* drill = app.add_subcommand(
      "drill",
      "Kill copies of this program at every durable point of a policy's flows, against scripted "
      "backends, and say whether the promise was kept");
  drill->add_option("--policy", options->policy, "Policy file or directory")->required();
  drill->add_option("--flow", options->flow,
                    "Only this flow, or only the tools of this backend that no flow names");
  drill
      ->add_option_function<std::string>(
          "--timeout",
          [options](const std::string& text) { options->timeout = *ParseDuration(text); },
          "How long all runs together may take")
      ->check(CheckTimeout)
      ->default_str("10m");
  drill
      ->add_option_function<std::vector<std::string>>(
          "--doubt",
          [options](const std::vector<std::string>& claims) {
            TakeDoubts(options->doubts, claims);
          },
          "A claim of the policy about its backends that the drill takes for false: what breaks "
          "then rests on it")
      ->check(CLI::IsMember(NamesOfDoubts()));
  drill->add_flag("--json", options->json, "Print JSON");
  drill->add_option("--tmp", options->tmp, "Where a temporary directory is made, and removed")
      ->envname("TMPDIR")
      ->capture_default_str();
  drill->callback([options, &exit_code] {
    options->tell_progress = ::isatty(STDERR_FILENO) == 1;
    options->tell_flows = !options->tell_progress;
    exit_code = RunDrill(*options, std::cout, std::cerr);
  });
}

}  // namespace recourse
