#include "proxy/inject/inject_command.h"

#include <memory>
#include <string>

#include "policy/language/config_reader.h"
#include "proxy/base/http/http_message.h"
#include "proxy/base/log/log.h"
#include "proxy/cli/command_line.h"
#include "proxy/inject/injector.h"

namespace recourse {
namespace {

struct InjectArguments {
  InjectorConfig config;
  std::string drain_timeout = "10s", log_level = "info";
};

}  // namespace

void AddInject(CLI::App& app, int& exit_code) {
  const auto args = std::make_shared<InjectArguments>();
  InjectorConfig& config = args->config;
  CLI::App* inject =
      app.add_subcommand("inject", "Serve the webhook that adds the sidecar to pods of Kubernetes");
  inject
      ->add_option("--template", config.pod_template,
                   "JSON file of what is added, as the Helm chart makes it; read again when it "
                   "changes")
      ->envname("RECOURSE_INJECT_TEMPLATE")
      ->required();
  inject
      ->add_option("--tls-cert", config.tls_cert,
                   "Certificate for --listen, PEM with its chain; read again when it changes")
      ->envname("RECOURSE_INJECT_TLS_CERT")
      ->required();
  inject->add_option("--tls-key", config.tls_key, "Key of --tls-cert, PEM")
      ->envname("RECOURSE_INJECT_TLS_KEY")
      ->required();
  inject
      ->add_option("--listen", config.listen,
                   "Address for API servers: POST /mutate, POST /validate")
      ->envname("RECOURSE_INJECT_LISTEN")
      ->capture_default_str();
  inject->add_option("--probes", config.probes, "Address of /healthz, /readyz and /metrics")
      ->envname("RECOURSE_INJECT_PROBES")
      ->capture_default_str();
  inject
      ->add_option("--ports-file", config.ports_file,
                   "Write the real ports here as JSON once everything is ready")
      ->envname("RECOURSE_INJECT_PORTS_FILE");
  inject
      ->add_option("--drain-timeout", args->drain_timeout,
                   "How long SIGTERM goes on answering, while API servers turn to others")
      ->envname("RECOURSE_INJECT_DRAIN_TIMEOUT")
      ->check(CheckDuration)
      ->capture_default_str();
  inject->add_option("--log-level", args->log_level, "debug, info, warn or error (stderr)")
      ->envname("RECOURSE_INJECT_LOG_LEVEL")
      ->transform(ToLower)
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  inject->callback([args, &exit_code] {
    SetLogLevel(*LogLevelFromName(args->log_level));
    args->config.drain_timeout = *ParseDuration(args->drain_timeout);
    exit_code = RunInjector(args->config);
  });
}

}  // namespace recourse
