// The command line: reads flags and environment, and hands over.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <sstream>

#include "policy/config_reader.h"
#include "policy/explain.h"
#include "proxy/base/log.h"
#include "proxy/server/admin_client.h"
#include "proxy/server/config.h"
#include "proxy/server/runtime.h"

namespace recourse {
namespace {

const std::map<std::string, LogLevel> kLogLevels{{"debug", LogLevel::kDebug},
                                                 {"info", LogLevel::kInfo},
                                                 {"warn", LogLevel::kWarn},
                                                 {"error", LogLevel::kError}};

struct Arguments {
  Config config;
  LogLevel log_level = LogLevel::kInfo;
  std::string drain_timeout = "25s";
  AdminClient admin;
  EventQuery query;
  std::uint64_t event_id = 0;
  std::string policy_path, call, body_file;
  std::vector<std::string> headers;
  int exit_code = 0;
};

std::string CheckDuration(const std::string& text) {
  return ParseDuration(text) ? std::string()
                             : "'" + text + "' is not a duration such as 500ms, 25s or 2m";
}

void AddRun(CLI::App& app, Arguments& args) {
  CLI::App* run = app.add_subcommand("run", "Run the proxy");
  Config& config = args.config;
  run->add_option("--policy", config.policy, "Policy file or directory")
      ->envname("RECOURSE_POLICY")
      ->required();
  run->add_option("--data", config.data, "Directory of the ledger; created when missing")
      ->envname("RECOURSE_DATA")
      ->required();
  run->add_option("--listen", config.listen, "Address for agents")
      ->envname("RECOURSE_LISTEN")
      ->capture_default_str();
  run->add_option("--admin", config.admin, "Address of the admin API")
      ->envname("RECOURSE_ADMIN")
      ->capture_default_str();
  run->add_option("--probes", config.probes, "Address of /live, /ready and /metrics")
      ->envname("RECOURSE_PROBES")
      ->capture_default_str();
  run->add_option("--ports-file", config.ports_file,
                  "Write the real ports here as JSON once everything is ready")
      ->envname("RECOURSE_PORTS_FILE");
  run->add_option("--admin-token-file", config.admin_token_file,
                  "File with the admin API's bearer token; without it nobody may use the API")
      ->envname("RECOURSE_ADMIN_TOKEN_FILE");
  run->add_option(
         "--ledger-max", config.ledger_bytes_max,
         "Most bytes the ledger may grow to, e.g. 8GiB; writes are refused when it is full")
      ->envname("RECOURSE_LEDGER_MAX")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1} << 20, std::uint64_t{1} << 44))
      ->default_str("64GiB");
  run->add_option("--threads", config.threads, "I/O threads")
      ->envname("RECOURSE_THREADS")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  run->add_option("--access-log", config.access_log, "File, '-' for stdout, or 'off'")
      ->envname("RECOURSE_ACCESS_LOG")
      ->capture_default_str();
  run->add_option("--log-level", args.log_level, "debug, info, warn or error (stderr)")
      ->envname("RECOURSE_LOG_LEVEL")
      ->transform(CLI::CheckedTransformer(kLogLevels, CLI::ignore_case));
  run->add_option("--drain-timeout", args.drain_timeout,
                  "How long SIGTERM waits for requests in flight")
      ->envname("RECOURSE_DRAIN_TIMEOUT")
      ->check(CheckDuration)
      ->capture_default_str();
  run->callback([&args] {
    SetLogLevel(args.log_level);
    args.config.drain_timeout = *ParseDuration(args.drain_timeout);
    args.exit_code = RunProxy(args.config);
  });
}

void AddAdminOptions(CLI::App& command, Arguments& args) {
  command.add_option("--admin", args.admin.address, "Address of the admin API")
      ->envname("RECOURSE_ADMIN")
      ->capture_default_str();
  command.add_option("--admin-token-file", args.admin.token_file, "File with the bearer token")
      ->envname("RECOURSE_ADMIN_TOKEN_FILE");
  command.add_flag("--json", args.admin.json, "Print JSON");
}

void AddEvents(CLI::App& app, Arguments& args) {
  CLI::App* events = app.add_subcommand("events", "Look at what was remembered");
  events->require_subcommand(1);
  CLI::App* list = events->add_subcommand("list", "List events, oldest first");
  list->add_option("--trace", args.query.trace, "Only events of this trace id");
  list->add_option("--tool", args.query.tool, "Only events of this tool");
  list->add_option("--status", args.query.status, "PENDING, SUCCESS, FAILED or COMPENSATED");
  list->add_option("--phase", args.query.phase, "DISPATCHING, UNCERTAIN, SUCCEEDED, ...");
  list->add_option("--after", args.query.after, "Only events with a larger id");
  list->add_option("--limit", args.query.limit, "Print at most this many")->capture_default_str();
  AddAdminOptions(*list, args);
  list->callback(
      [&args] { args.exit_code = ListEvents(args.admin, args.query, std::cout, std::cerr); });
  CLI::App* show = events->add_subcommand("show", "Show one event and its operation");
  show->add_option("id", args.event_id, "Event id")->required();
  AddAdminOptions(*show, args);
  show->callback(
      [&args] { args.exit_code = ShowEvent(args.admin, args.event_id, std::cout, std::cerr); });
}

void AddLedger(CLI::App& app, Arguments& args) {
  CLI::App* ledger = app.add_subcommand("ledger", "Check the ledger");
  ledger->require_subcommand(1);
  CLI::App* verify =
      ledger->add_subcommand("verify", "Verify every record and the whole hash chain");
  AddAdminOptions(*verify, args);
  verify->callback([&args] { args.exit_code = VerifyLedger(args.admin, std::cout, std::cerr); });
}

int Explain(const Arguments& args) {
  Headers headers;
  for (const std::string& line : args.headers) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) {
      std::cerr << "recourse: --header '" << line << "' is not of the form 'Name: value'\n";
      return kExitUsage;
    }
    const auto value = line.find_first_not_of(' ', colon + 1);
    headers.emplace_back(line.substr(0, colon),
                         value == std::string::npos ? std::string() : line.substr(value));
  }
  std::string body;
  if (!args.body_file.empty()) {
    std::ifstream file(args.body_file, std::ios::binary);
    if (!file) {
      std::cerr << "recourse: cannot open " << args.body_file << "; --body takes a file\n";
      return kExitUsage;
    }
    std::ostringstream text;
    text << file.rdbuf();
    body = text.str();
  }
  return RunPolicyExplain(args.policy_path, args.call, headers, body, std::cout);
}

void AddPolicy(CLI::App& app, Arguments& args) {
  CLI::App* policy = app.add_subcommand("policy", "Check and understand a policy");
  policy->require_subcommand(1);
  CLI::App* check = policy->add_subcommand("check", "Report every error and warning");
  check->add_option("file", args.policy_path, "Policy file or directory")->required();
  check->callback([&args] { args.exit_code = RunPolicyCheck(args.policy_path, std::cout); });
  CLI::App* test = policy->add_subcommand("test", "Run the policy's own tests: section");
  test->add_option("file", args.policy_path, "Policy file or directory")->required();
  test->callback([&args] { args.exit_code = RunPolicyTest(args.policy_path, std::cout); });
  CLI::App* explain = policy->add_subcommand("explain", "Say how one call is treated, and why");
  explain->add_option("file", args.policy_path, "Policy file or directory")->required();
  explain->add_option("call", args.call, "\"POST http://host/path?query\"")->required();
  explain->add_option("--body", args.body_file, "File with the request's body");
  explain->add_option("--header", args.headers, "\"Name: value\", may be repeated");
  explain->callback([&args] { args.exit_code = Explain(args); });
}

// CLI11 only says that a subcommand is missing; this names the word that is none.
std::string UnknownCommand(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    if (at->get_subcommands({}).empty()) return {};
    std::string known;
    const CLI::App* next = nullptr;
    for (const CLI::App* command : at->get_subcommands({})) {
      known += (known.empty() ? "" : ", ") + command->get_name();
      if (command->get_name() == argv[i]) next = command;
    }
    if (next == nullptr) {
      return "there is no command '" + std::string(argv[i]) + "'; accepted: " + known;
    }
    at = next;
  }
  return {};
}

}  // namespace
}  // namespace recourse

int main(int argc, char** argv) {
  using recourse::Arguments;
  CLI::App app("Recourse: a sidecar that makes agents' writes repeatable, remembered and undoable",
               "recourse");
  Arguments args;
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("recourse ") + RECOURSE_VERSION);
  recourse::AddRun(app, args);
  recourse::AddEvents(app, args);
  recourse::AddLedger(app, args);
  recourse::AddPolicy(app, args);
  app.add_subcommand("version", "Print the version")->callback([] {
    std::cout << "recourse " << RECOURSE_VERSION << "\n";
  });
  if (const auto unknown = recourse::UnknownCommand(app, argc, argv); !unknown.empty()) {
    std::cerr << "recourse: " << unknown << "\n";
    return recourse::kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? recourse::kExitOk : recourse::kExitUsage;
  }
  return args.exit_code;
}
