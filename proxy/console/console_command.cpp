#include "proxy/console/console_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "proxy/base/json/json_object.h"
#include "proxy/base/log/log.h"
#include "proxy/cli/api_call.h"
#include "proxy/config/config.h"
#include "proxy/config/files.h"
#include "proxy/console/console.h"
#include "proxy/startup/listening.h"
#include "proxy/startup/startup.h"

namespace recourse {
namespace {

constexpr Millis kLookAtFiles{1'000};
constexpr Millis kLedgerTotal{30'000};

struct ConsoleArguments {
  Config config;
  std::vector<std::string> ledgers;  // NAME=ADDRESS
  std::string ca_file, log_level = "info";
};

RemoteLedgers LedgersOrThrow(const ConsoleArguments& args) {
  RemoteLedgers ledgers;
  for (const std::string& given : args.ledgers) {
    const auto equals = given.find('=');
    const std::string name = given.substr(0, equals);
    const bool is_known =
        std::ranges::any_of(ledgers, [&](const auto& one) { return one->name() == name; });
    if (equals == given.npos || !IsLedgerName(name) || is_known) {
      throw StartupError(kExitUsage, "--ledger: '" + given +
                                         "' is not NAME=ADDRESS, such as "
                                         "eu=https://steward-eu:19081, with a name of its own");
    }
    ApiClient client;
    client.address = given.substr(equals + 1);
    if (client.address.starts_with("https://")) client.ca_file = args.ca_file;
    auto place = AdminPlaceOf(client);
    if (!place) throw StartupError(kExitUsage, "--ledger " + name + ": " + place.error());
    place->total = kLedgerTotal;
    const bool is_here = place->host == "localhost" || place->host.starts_with("127.") ||
                         place->host == "::1" || place->host == "[::1]";
    if (place->tls == nullptr && !is_here) {
      Log(LogLevel::kWarn,
          "operators' tokens go to this ledger without TLS: whoever listens reads "
          "them",
          {{"ledger", name}, {"advice", "give its admin port a certificate, and https://"}});
    }
    ledgers.push_back(std::make_unique<RemoteLedger>(name, client, std::move(*place)));
  }
  return ledgers;
}

std::string MetricsOf(const Console& console) {
  std::string text =
      "# HELP recourse_console_ledger_up Whether a ledger of this console answered last\n"
      "# TYPE recourse_console_ledger_up gauge\n";
  for (const auto& ledger : console.ledgers()) {
    text += "recourse_console_ledger_up{ledger=\"" + ledger->name() + "\"} " +
            (ledger->away().empty() ? "1\n" : "0\n");
  }
  return text;
}

HttpResponse Probe(const Console& console, const HttpRequest& request) {
  const bool is_metrics = request.target == "/metrics";
  const bool is_known = is_metrics || request.target == "/live" || request.target == "/ready";
  return {is_known ? 200 : 404,
          is_known ? "OK" : "Not Found",
          {{"Content-Type", "text/plain; charset=utf-8"}},
          is_metrics ? MetricsOf(console)
          : is_known ? "ok\n"
                     : "there is /live, /ready, /metrics\n"};
}

void Serve(const ConsoleArguments& args) {
  const SystemClock clock;
  SystemRandom random;
  ServerTls tls(AdminTlsFilesOf(args.config), "--admin-tls-cert");
  // Never destroyed: a ledger that does not answer would hold up the end.
  auto* const console = new Console(LedgersOrThrow(args), args.config.admin_hosts, clock, random);
  std::unique_ptr<HttpServer> admin, probes;
  ListenOrThrow("--probes", args.config.probes, [&](const Tcp::endpoint& endpoint) {
    probes = std::make_unique<HttpServer>(
        endpoint,
        [&](const HttpRequest& request, const HttpPeer&) { return Probe(*console, request); },
        HttpServerSettings{.thread = "recourse-probes"});
  });
  ListenOrThrow("--admin", args.config.admin, [&](const Tcp::endpoint& endpoint) {
    WarnOfPlainAdmin(args.config, endpoint);
    admin = std::make_unique<HttpServer>(
        endpoint,
        [&](const HttpRequest& request, const HttpPeer& peer) {
          return console->Handle(request, peer);
        },
        HttpServerSettings{.thread = "recourse-admin", .tls = tls.First()});
  });
  WritePortsOrThrow(args.config.ports_file, 0, admin->endpoint().port(), probes->endpoint().port());
  Log(LogLevel::kInfo, "the console is ready",
      {{"admin", args.config.admin}, {"ledgers", std::to_string(console->ledgers().size())}});
  while (!IsEndedWithin(kLookAtFiles)) {
    if (const auto fresh = tls.Refresh(FileState::Look::kSettled)) admin->UseTls(fresh);
  }
  Log(LogLevel::kInfo, "stopped");
  std::_Exit(kExitOk);
}

int RunConsole(const ConsoleArguments& args) {
  BlockSignals();
  KeepMemoryPrivate();
  try {
    Serve(args);
  } catch (const StartupError& error) {
    std::fprintf(stderr, "recourse: %s\n", error.what());
    std::_Exit(error.exit_code);  // threads may be running already
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recourse: cannot start: %s\n", error.what());
    std::_Exit(kExitRuntime);
  }
  return kExitOk;
}

}  // namespace

void AddConsole(CLI::App& app, int& exit_code) {
  const auto args = std::make_shared<ConsoleArguments>();
  Config& config = args->config;
  CLI::App* console = app.add_subcommand(
      "console", "Serve one page and one API for the ledgers of several pods or stewards");
  console
      ->add_option("--ledger", args->ledgers,
                   "NAME=ADDRESS: a ledger, and the admin port of a pod or steward that has it; "
                   "repeated")
      ->envname("RECOURSE_CONSOLE_LEDGER")
      ->required();
  console
      ->add_option("--ledger-ca", args->ca_file,
                   "CA of https addresses, PEM; without it the system's trust store")
      ->envname("RECOURSE_CONSOLE_LEDGER_CA");
  console->add_option("--admin", config.admin, "Address of the page and the API")
      ->envname("RECOURSE_CONSOLE_ADMIN")
      ->capture_default_str();
  console->add_option("--probes", config.probes, "Address of /live, /ready and /metrics")
      ->envname("RECOURSE_CONSOLE_PROBES")
      ->capture_default_str();
  console
      ->add_option("--admin-host", config.admin_hosts,
                   "A DNS name by which operators reach --admin; may be repeated")
      ->envname("RECOURSE_CONSOLE_ADMIN_HOST")
      ->transform([](const std::string& name) { return ToLower(name); });
  CLI::Option* const cert =
      console
          ->add_option("--admin-tls-cert", config.admin_tls_cert,
                       "Certificate for --admin, PEM with its chain; makes it speak TLS only")
          ->envname("RECOURSE_CONSOLE_TLS_CERT");
  CLI::Option* const key =
      console->add_option("--admin-tls-key", config.admin_tls_key, "Key of --admin-tls-cert, PEM")
          ->envname("RECOURSE_CONSOLE_TLS_KEY")
          ->needs(cert);
  cert->needs(key);
  console
      ->add_option("--ports-file", config.ports_file,
                   "Write the real ports here as JSON once everything is ready")
      ->envname("RECOURSE_CONSOLE_PORTS_FILE");
  console->add_option("--log-level", args->log_level, "debug, info, warn or error (stderr)")
      ->envname("RECOURSE_CONSOLE_LOG_LEVEL")
      ->transform(ToLower)
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  console->callback([args, &exit_code] {
    SetLogLevel(*LogLevelFromName(args->log_level));
    exit_code = RunConsole(*args);
  });
}

}  // namespace recourse
