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
  std::string drain_timeout = "10s", ca_life = "365d", log_level = "info";
};

void AddClusterOptions(CLI::App& inject, InjectArguments& args) {
  InjectorConfig& config = args.config;
  inject
      .add_option("--api-server", config.api.url,
                  "Ask this API server whether the sidecar's ConfigMap and Secrets are there, such "
                  "as https://kubernetes.default.svc")
      ->envname("RECOURSE_INJECT_API_SERVER");
  inject
      .add_option("--service-account", config.api.service_account,
                  "Directory of the token for --api-server, as Kubernetes mounts it")
      ->envname("RECOURSE_INJECT_SERVICE_ACCOUNT")
      ->capture_default_str();
  CLI::Option* const secret =
      inject
          .add_option("--own-certificate", config.own.secret,
                      "Make and renew --tls-cert and --tls-key here, with a CA that this Secret of "
                      "the pod's namespace keeps for all replicas")
          ->envname("RECOURSE_INJECT_OWN_CERTIFICATE")
          ->needs(inject.get_option("--api-server"));
  const auto add = [&](const char* flag, std::string& value, const char* help) {
    return inject.add_option(flag, value, help)->needs(secret);
  };
  secret->needs(add("--host", config.own.host, "DNS name of the webhook: NAME.NAMESPACE.svc"));
  add("--mutating-webhook", config.own.mutating,
      "MutatingWebhookConfiguration that gets the CA of --own-certificate");
  add("--validating-webhook", config.own.validating,
      "ValidatingWebhookConfiguration that gets it, too");
  add("--ca-life", args.ca_life, "How long a CA of --own-certificate is valid")
      ->check(CheckDuration)
      ->capture_default_str();
}

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
  AddClusterOptions(*inject, *args);
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
    args->config.own.ca_life = *ParseDuration(args->ca_life);
    exit_code = RunInjector(args->config);
  });
}

}  // namespace recourse
