#include "proxy/suggest/replay_command.h"

#include <iostream>
#include <memory>
#include <string>

#include "policy/explain/replay.h"
#include "policy/language/config_reader.h"
#include "proxy/cli/command_line.h"
#include "proxy/config/config.h"
#include "proxy/suggest/traffic_replay.h"

namespace recourse {
namespace {

struct ReplayArguments {
  std::string exported, before, since = "24h";
  TrafficReplayOptions traffic;
};

int RunReplay(ReplayArguments& args) {
  const std::string& policy = args.traffic.policy;
  if (args.exported.empty() == args.traffic.data.empty()) {
    std::cerr << "recourse: say which calls: the file of an export (recourse ledger export), or "
                 "--data DIR of a process that observes\n";
    return kExitUsage;
  }
  if (!args.exported.empty()) {
    return RunPolicyReplay(args.exported, policy, args.before, std::cout, std::cerr);
  }
  if (!args.before.empty()) {
    std::cerr << "recourse: --before is for an export: what observe mode saw says by itself how it "
                 "was judged\n";
    return kExitUsage;
  }
  args.traffic.since = *ParseDuration(args.since);
  return ReplayTraffic(args.traffic, std::cout, std::cerr);
}

}  // namespace

void AddReplay(CLI::App& policy, int& exit_code) {
  const auto args = std::make_shared<ReplayArguments>();
  CLI::App* const replay = policy.add_subcommand(
      "replay",
      "Say what another policy would have made of past calls: exit code 1 if something changes, "
      "or, "
      "of calls that were only observed, if two of them that got different answers would be one");
  replay->add_option("export", args->exported, "Events as NDJSON; or --data");
  replay->add_option("--policy", args->traffic.policy, "The policy to judge them by")->required();
  replay->add_option("--before", args->before, "The policy they were made under");
  replay->add_option("--data", args->traffic.data,
                     "Data directory of a process that observes: the calls that it has seen");
  replay->add_option("--install-secret-file", args->traffic.install_secret,
                     "As `run` has it. Without it: DATA/install.secret");
  replay->add_option("--since", args->since, "With --data: from so long before now")
      ->check(CheckDuration)
      ->capture_default_str();
  replay->callback([args, &exit_code] { exit_code = RunReplay(*args); });
}

}  // namespace recourse
