// The command line: reads flags and environment, and hands over.
#include <CLI/CLI.hpp>
#include <iostream>

#include "filters/key/explained_arguments.h"
#include "policy/explain/explain.h"
#include "policy/language/config_reader.h"
#include "policy/language/schema.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/base/random.h"
#include "proxy/cli/api_client.h"
#include "proxy/cli/command_line.h"
#include "proxy/cli/commands.h"
#include "proxy/cli/help/help_command.h"
#include "proxy/cli/policy/commands.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/console/console_command.h"
#include "proxy/doctor/doctor_command.h"
#include "proxy/drill/drill_command.h"
#include "proxy/inject/inject_command.h"
#include "proxy/process/runtime.h"
#include "proxy/suggest/replay_command.h"
#include "proxy/suggest/suggest_command.h"
#include "proxy/telemetry/otlp_options.h"

namespace recourse {
namespace {

struct Arguments {
  Config config;
  std::string log_level = "info";
  std::string drain_timeout = "25s";
  std::string latched_for = "60s";
  std::string expect_ledger = "0";
  std::string ledger_head_every = "1m";
  ApiClient admin;
  EventQuery query;
  std::string event_id;
  std::string since, until;
  std::string policy_path, call, body_file;
  std::vector<std::string> headers;
  int exit_code = 0;
};

std::string CheckPatience(const std::string& text) {
  static constexpr Millis kLeast{100}, kMost{std::chrono::hours(24)};
  const auto patience = ParseDuration(text);
  return patience && *patience >= kLeast && *patience <= kMost
             ? std::string()
             : "'" + text + "' is not a duration from 100ms to 24h, such as 10s or 2m";
}

// What clients may take, and how long they may take over it.
void AddBounds(CLI::App* run, ClientBounds& bounds) {
  const auto count = [run](const char* flag, const char* variable, std::size_t& value,
                           const char* help) {
    run->add_option(flag, value, help)
        ->envname(variable)
        ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
        ->capture_default_str();
  };
  const auto patience = [run](const char* flag, const char* variable, Millis& value,
                              const char* help) {
    run->add_option_function<std::string>(
           flag, [&value](const std::string& text) { value = *ParseDuration(text); }, help)
        ->envname(variable)
        ->check(CheckPatience)
        ->default_str(std::to_string(value.count() / 1000) + "s");
  };
  count("--connections-max", "RECOURSE_CONNECTIONS_MAX", bounds.connections_max,
        "Most open client connections; a further one takes the place of an idle one, or gets a "
        "503");
  count("--connections-per-peer-max", "RECOURSE_CONNECTIONS_PER_PEER_MAX",
        bounds.connections_per_peer_max, "Most of them from one address (IPv6: one /64)");
  count("--writes-max", "RECOURSE_WRITES_MAX", bounds.writes_max,
        "Most writes worked on at once; further ones get a 503");
  run->add_option(
         "--call-memory", bounds.call_memory_bytes,
         "Most memory held for calls at once, e.g. 192MiB; further ones get a 503. Without "
         "it: three eighths of the memory limit, or 256MiB where there is none")
      ->envname("RECOURSE_CALL_MEMORY")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(limits::kCallMemoryBytesMin, std::size_t{1} << 44));
  count("--requests-per-connection-max", "RECOURSE_REQUESTS_PER_CONNECTION_MAX",
        bounds.requests_per_connection_max,
        "After that many the client has to connect again; small numbers spread clients that "
        "balance by connection");
  patience("--head-timeout", "RECOURSE_HEAD_TIMEOUT", bounds.head_timeout,
           "How long the head of a request may take to arrive");
  patience("--body-timeout", "RECOURSE_BODY_TIMEOUT", bounds.body_timeout,
           "How long a body may be awaited; every 512 bytes give a second back");
  patience("--idle-timeout", "RECOURSE_IDLE_TIMEOUT", bounds.idle_timeout,
           "How long a client connection may wait for its next request");
  patience("--send-timeout", "RECOURSE_SEND_TIMEOUT", bounds.send_timeout,
           "How long a client may take none of its answer");
  patience("--stream-timeout", "RECOURSE_STREAM_TIMEOUT", bounds.stream_timeout,
           "How long an answer that has begun, or a tunnel, may be silent");
}

std::string CheckExpectedLedger(const std::string& text) {
  return ParseExpectedLedger(text) ? std::string()
                                   : "'" + text +
                                         "' is not ROWS or ROWS:HEAD as 'recourse ledger verify' "
                                         "prints them, e.g. 1";
}

void AddLedgerOptions(CLI::App& run, Arguments& args) {
  Config& config = args.config;
  run.add_option("--ledger-max", config.ledger_bytes_max,
                 "Most bytes the ledger may grow to, e.g. 8GiB; writes are refused when it is full")
      ->envname("RECOURSE_LEDGER_MAX")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1} << 20, std::uint64_t{1} << 44))
      ->default_str("64GiB");
  run.add_option("--ledger-key-file", config.ledger_key_file,
                 "Keys that seal stored requests and answers, one `KEY_ID KEY` per line; the first "
                 "seals, all open; SIGHUP reads it again. Without it: DATA/ledger.key")
      ->envname("RECOURSE_LEDGER_KEY_FILE");
  run.add_option("--install-secret-file", config.install_secret_file,
                 "64 hex digits that idempotency keys are made with, the same for every replica of "
                 "one workload, so that each sends the same key for the same call. Without it: "
                 "DATA/install.secret")
      ->envname("RECOURSE_INSTALL_SECRET_FILE");
  CLI::Option* const head_key =
      run.add_option(
             "--ledger-head-key", config.ledger_head_key,
             "Ed25519 private key, PEM, that signs the head of the ledger's hash chain, for "
             "--ledger-head-file and the policy's webhook")
          ->envname("RECOURSE_LEDGER_HEAD_KEY");
  run.add_option("--ledger-head-file", config.ledger_head_file,
                 "File that always has the newest signed head; keep it elsewhere than the ledger")
      ->envname("RECOURSE_LEDGER_HEAD_FILE")
      ->needs(head_key);
  run.add_option("--ledger-head-every", args.ledger_head_every, "How often the head is signed")
      ->envname("RECOURSE_LEDGER_HEAD_EVERY")
      ->check(CheckPatience)
      ->capture_default_str();
  run.add_option("--expect-ledger", args.expect_ledger,
                 "ROWS or ROWS:HEAD that the ledger must hold already; 1 never creates one")
      ->envname("RECOURSE_EXPECT_LEDGER")
      ->check(CheckExpectedLedger)
      ->capture_default_str();
  run.add_flag("--unsafe-fs", config.unsafe_fs,
               "Accept a file system that may lose what was synced (a container's layer, NFS)")
      ->envname("RECOURSE_UNSAFE_FS");
  run.add_option("--latched-for", args.latched_for,
                 "How long reads are served after the ledger failed, before the process ends "
                 "with 74; 0s: until a signal")
      ->envname("RECOURSE_LATCHED_FOR")
      ->check(CheckDuration)
      ->capture_default_str();
  run.add_option("--pod-uid", config.pod,
                 "The pod of this process, for the policy's `without_trace: pod`, where its ledger "
                 "outlives it")
      ->envname("RECOURSE_POD_UID");
}

void AddRedirectListener(CLI::App& run, Config& config) {
  run.add_option("--redirect", config.redirect_port,
                 "Port, on 127.0.0.1 and ::1, for the connections that `recourse redirect install` "
                 "redirects; 0: none are taken")
      ->envname("RECOURSE_REDIRECT")
      ->check(CLI::Range(std::uint16_t{0}, std::uint16_t{65535}))
      ->capture_default_str();
  run.add_flag("--watch-unguarded", config.watch_unguarded,
               "Count connections of others in this network namespace, such as a pod's, that go to "
               "backends directly")
      ->envname("RECOURSE_WATCH_UNGUARDED");
}

void AddListenerTls(CLI::App& run, Config& config) {
  CLI::Option* const cert =
      run.add_option("--tls-cert", config.tls_cert,
                     "Certificate for --listen, PEM with its chain; makes it speak TLS only")
          ->envname("RECOURSE_TLS_CERT");
  CLI::Option* const key = run.add_option("--tls-key", config.tls_key, "Key of --tls-cert, PEM")
                               ->envname("RECOURSE_TLS_KEY")
                               ->needs(cert);
  cert->needs(key);
  run.add_option("--tls-client-ca", config.tls_client_ca,
                 "CA of the agents' certificates, PEM; each then has to show one, which names it")
      ->envname("RECOURSE_TLS_CLIENT_CA")
      ->needs(cert);
}

void AddAdminPort(CLI::App& run, Config& config) {
  run.add_option("--admin-token-file", config.admin_token_file,
                 "File with a bearer token for the admin API: reads and repairs, approves nothing")
      ->envname("RECOURSE_ADMIN_TOKEN_FILE");
  run.add_option("--operators", config.operators,
                 "YAML file of who may use the admin API, and for what; read again when it changes")
      ->envname("RECOURSE_OPERATORS");
  run.add_option("--admin-host", config.admin_hosts,
                 "A DNS name by which operators reach --admin; may be repeated")
      ->envname("RECOURSE_ADMIN_HOST")
      ->transform([](const std::string& name) { return ToLower(name); });
  CLI::Option* const cert =
      run.add_option("--admin-tls-cert", config.admin_tls_cert,
                     "Certificate for --admin, PEM with its chain; makes it speak TLS only")
          ->envname("RECOURSE_ADMIN_TLS_CERT");
  CLI::Option* const key =
      run.add_option("--admin-tls-key", config.admin_tls_key, "Key of --admin-tls-cert, PEM")
          ->envname("RECOURSE_ADMIN_TLS_KEY")
          ->needs(cert);
  cert->needs(key);
  run.add_option("--admin-client-ca", config.admin_client_ca,
                 "CA of operators' certificates, PEM; one that is shown names the operator")
      ->envname("RECOURSE_ADMIN_CLIENT_CA")
      ->needs(cert);
}

int Start(Arguments& args) {
  SetLogLevel(*LogLevelFromName(args.log_level));
  args.config.drain_timeout = *ParseDuration(args.drain_timeout);
  args.config.latched_for = *ParseDuration(args.latched_for);
  args.config.ledger_head_every = *ParseDuration(args.ledger_head_every);
  args.config.expect_ledger = *ParseExpectedLedger(args.expect_ledger);
  TakeOtelVariables(args.config.otlp);
  args.config.notify_socket = NotifySocket();
  return RunProxy(args.config);
}

// What a process has that works on a ledger, whether or not agents call it.
void AddProcess(CLI::App& run, Arguments& args) {
  Config& config = args.config;
  run.add_option("--policy", config.policy, "Policy file or directory")
      ->envname("RECOURSE_POLICY")
      ->required();
  run.add_option("--data", config.data, "Directory of the ledger; created when missing")
      ->envname("RECOURSE_DATA")
      ->required();
  run.add_option("--ledger", config.ledger.url,
                 "Another ledger than the one in --data; memory: forgets all at its end")
      ->envname("RECOURSE_LEDGER");
  run.add_option("--ledger-password-file", config.ledger.password_file,
                 "File with the password of a shared ledger's database; read at each connect")
      ->envname("RECOURSE_LEDGER_PASSWORD_FILE");
  run.add_option("--ledger-group", config.ledger.group,
                 "Name of the pods that do each other's work over a shared ledger")
      ->envname("RECOURSE_LEDGER_GROUP");
  run.add_option("--admin", config.admin, "Address of the admin API")
      ->envname("RECOURSE_ADMIN")
      ->capture_default_str();
  run.add_option("--probes", config.probes, "Address of /live, /ready and /metrics")
      ->envname("RECOURSE_PROBES")
      ->capture_default_str();
  run.add_option("--ports-file", config.ports_file,
                 "Write the real ports here as JSON once everything is ready")
      ->envname("RECOURSE_PORTS_FILE");
  AddAdminPort(run, config);
  AddLedgerOptions(run, args);
  run.add_option("--threads", config.threads, "I/O threads")
      ->envname("RECOURSE_THREADS")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  run.add_option("--log-level", args.log_level, "debug, info, warn or error (stderr)")
      ->envname("RECOURSE_LOG_LEVEL")
      ->transform(ToLower)
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  run.add_option("--drain-timeout", args.drain_timeout,
                 "How long SIGTERM waits for requests in flight")
      ->envname("RECOURSE_DRAIN_TIMEOUT")
      ->check(CheckDuration)
      ->capture_default_str();
  AddTraceOptions(run, config.otlp);
}

void AddRun(CLI::App& app, Arguments& args) {
  CLI::App* run = app.add_subcommand("run", "Run the proxy");
  Config& config = args.config;
  AddProcess(*run, args);
  run->add_option("--listen", config.listen, "Address for agents")
      ->envname("RECOURSE_LISTEN")
      ->capture_default_str();
  AddRedirectListener(*run, config);
  AddListenerTls(*run, config);
  AddCaOptions(*run, config.ca);
  run->add_option("--access-log", config.access_log, "File, '-' for stdout, or 'off'")
      ->envname("RECOURSE_ACCESS_LOG")
      ->capture_default_str();
  AddBounds(run, config.bounds);
  run->callback([&args] { args.exit_code = Start(args); });
  CLI::App* steward = app.add_subcommand(
      "steward", "Serve the page and the API of a shared ledger, and do what its pods left undone");
  AddProcess(*steward, args);
  steward->callback([&args] {
    args.config.listen.clear();
    args.exit_code = Start(args);
  });
}

void AddAdminOptions(CLI::App& command, Arguments& args) {
  command.add_option("--admin", args.admin.address, "Admin API: HOST:PORT or https://HOST:PORT")
      ->envname("RECOURSE_ADMIN")
      ->capture_default_str();
  command
      .add_option("--admin-token-file", args.admin.token_file, "File with your bearer token or JWT")
      ->envname("RECOURSE_ADMIN_TOKEN_FILE");
  command
      .add_option("--admin-ca", args.admin.ca_file,
                  "CA of an https admin API, PEM; without it the system's trust store")
      ->envname("RECOURSE_ADMIN_CA");
  CLI::Option* const cert =
      command.add_option("--admin-cert", args.admin.cert_file, "Certificate that names you, PEM")
          ->envname("RECOURSE_ADMIN_CERT");
  CLI::Option* const key =
      command.add_option("--admin-key", args.admin.key_file, "Key of --admin-cert, PEM")
          ->envname("RECOURSE_ADMIN_KEY")
          ->needs(cert);
  cert->needs(key);
  command.add_option("--at", args.admin.ledger, "The ledger of that name, at a console of several");
  command.add_flag("--json", args.admin.json, "Print JSON");
}

void AddEvents(CLI::App& app, Arguments& args) {
  CLI::App* events = app.add_subcommand("events", "Look at what was remembered");
  events->require_subcommand(1);
  CLI::App* list =
      events->add_subcommand("list", "List events, oldest first unless --newest is given");
  list->add_option("--trace", args.query.trace, "Only events of this trace id");
  list->add_option("--tool", args.query.tool, "Only events of this tool");
  list->add_option("--flow", args.query.flow, "Only what is of the flow of this flow id");
  list->add_option("--status", args.query.status, "PENDING, SUCCESS, FAILED or COMPENSATED");
  list->add_option("--phase", args.query.phase, "DISPATCHING, UNCERTAIN, SUCCEEDED, ...");
  AddPod(*list, args.query.pod);
  AddPlace(*list, "--after", args.query.after,
           "Only events with a larger id, or those behind where a list was cut");
  list->add_option("--limit", args.query.limit, "Print at most this many")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI::Option* const newest =
      list->add_flag("--newest", args.query.newest_first, "The newest ones, newest first");
  list->add_flag("--follow", args.query.follows, "Go on with what comes, until Ctrl-C")
      ->excludes(newest);
  AddAdminOptions(*list, args);
  list->callback(
      [&args] { args.exit_code = ListEvents(args.admin, args.query, std::cout, std::cerr); });
  CLI::App* show = events->add_subcommand("show", "Show one event and its operation");
  AddServedId(*show, "id", args.event_id, "Event id")->required();
  AddAdminOptions(*show, args);
  show->callback(
      [&args] { args.exit_code = ShowEvent(args.admin, args.event_id, std::cout, std::cerr); });
}

void AddReport(CLI::App& app, Arguments& args) {
  CLI::App* report = app.add_subcommand(
      "report", "Duplicates, unknown outcomes, writes without undo, calls that no tool matches");
  report->add_option("--since", args.since, "From so long before now, e.g. 24h, or ms since 1970");
  report->add_option("--until", args.until, "Until so long before now, or ms since 1970");
  AddAdminOptions(*report, args);
  report->callback([&args] {
    args.exit_code = ShowReport(args.admin, args.since, args.until, std::cout, std::cerr);
  });
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
  if (args.body_file.starts_with('{')) {
    body = args.body_file;
  } else if (!args.body_file.empty()) {
    auto text = ReadInputFile(args.body_file, limits::kWriteBodyBytesMax);
    if (!text) {
      std::cerr << "recourse: --body: " << text.error() << "\n";
      return kExitUsage;
    }
    body = std::move(*text);
  }
  return RunPolicyExplain(args.policy_path, args.call, headers, body,
                          args.admin.json ? ExplainForm::kJson : ExplainForm::kText, std::cout,
                          ArgumentsOf);
}

void AddPolicyMakers(CLI::App& policy, Arguments& args) {
  policy.add_subcommand("schema", "Print the JSON Schema of the language")->callback([] {
    std::cout << PolicySchema();
  });
  AddImports(policy, args.exit_code);
  AddReplay(policy, args.exit_code);
}

void AddPolicy(CLI::App& app, Arguments& args) {
  CLI::App* policy = app.add_subcommand("policy", "Check and understand a policy");
  policy->require_subcommand(1);
  AddCheck(*policy, args.exit_code);
  CLI::App* test = policy->add_subcommand("test", "Run the policy's own tests: section");
  test->add_option("file", args.policy_path, "Policy file or directory")->required();
  test->callback(
      [&args] { args.exit_code = RunPolicyTest(args.policy_path, std::cout, ArgumentsOf); });
  AddPolicyMakers(*policy, args);
  AddSuggest(*policy, args.exit_code);
  CLI::App* status =
      policy->add_subcommand("status", "Show the policy that a running process has in force");
  AddAdminOptions(*status, args);
  status->callback([&args] { args.exit_code = ShowPolicy(args.admin, std::cout, std::cerr); });
  CLI::App* reload = policy->add_subcommand("reload", "Let a running process read its policy anew");
  AddAdminOptions(*reload, args);
  reload->callback([&args] { args.exit_code = ReloadPolicy(args.admin, std::cout, std::cerr); });
  CLI::App* explain = policy->add_subcommand("explain", "Say how one call is treated, and why");
  explain->add_option("file", args.policy_path, "Policy file or directory")->required();
  explain
      ->add_option("call", args.call,
                   "\"POST http://host/path?query\", or \"tools/call backend NAME\"")
      ->required();
  explain->add_option(
      "--body", args.body_file,
      "File with the request's body, of tools/call the arguments; or a JSON object");
  explain->add_option("--header", args.headers, "\"Name: value\", may be repeated");
  explain->add_flag("--json", args.admin.json, "Print JSON");
  explain->callback([&args] { args.exit_code = Explain(args); });
}

}  // namespace
}  // namespace recourse

int main(int argc, char** argv) {
  using recourse::Arguments;
  CLI::App app("Recourse: a sidecar that makes agents' writes repeatable, remembered and undoable",
               "recourse");
  Arguments args;
  recourse::UseOwnHelp(app);
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", std::string("recourse ") + RECOURSE_VERSION);
  const auto add_admin_options = [&args](CLI::App& command) {
    recourse::AddAdminOptions(command, args);
  };
  recourse::AddRun(app, args);
  recourse::AddEvents(app, args);
  recourse::AddReport(app, args);
  recourse::AddProcess(app, args.admin, add_admin_options, args.exit_code);
  recourse::AddDoctor(app, args.admin, add_admin_options, args.exit_code);
  recourse::AddFlows(app, args.admin, add_admin_options, args.exit_code);
  recourse::AddOperations(app, args.admin, add_admin_options, args.exit_code);
  recourse::AddApprovals(app, args.admin, add_admin_options, args.exit_code);
  recourse::AddOperators(app, args.exit_code);
  recourse::AddRedirect(app, args.exit_code);
  recourse::AddCa(app, args.exit_code);
  recourse::AddEnv(app, args.exit_code);
  recourse::AddDrill(app, args.exit_code);
  recourse::AddConsole(app, args.exit_code);
  recourse::AddInject(app, args.exit_code);
  recourse::AddLedger(app, args.admin, add_admin_options, args.exit_code);
  recourse::AddPolicy(app, args);
  recourse::AddPacks(app, args.exit_code);
  app.add_subcommand("version", "Print the version")->callback([] {
    std::cout << "recourse " << RECOURSE_VERSION << "\n";
  });
  recourse::AddHelp(app, args.exit_code);
  recourse::FinishCommands(app);
  if (const auto unknown = recourse::UnknownCommand(app, argc, argv); !unknown.empty()) {
    std::cerr << "recourse: " << unknown << "\n";
    return recourse::kExitUsage;
  }
  recourse::ForgetVariablesOfOthers(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Of --help and --version.
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "recourse: " << recourse::WordsFor(app, error);
    return recourse::kExitUsage;
  }
  return args.exit_code;
}
