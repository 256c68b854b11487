#include <fmt/chrono.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "policy/files/sources.h"
#include "policy/language/config_reader.h"
#include "policy/language/loader.h"
#include "policy/model/intercepted_hosts.h"
#include "policy/model/url.h"
#include "proxy/base/ca_limits.h"
#include "proxy/ca/ca_directory.h"
#include "proxy/ca/trust_bundle.h"
#include "proxy/cli/commands.h"
#include "proxy/config/agent_env.h"
#include "proxy/config/config.h"

namespace recourse {
namespace {

struct CaArguments {
  std::string directory, name = HostName(), life = "7d";
  std::string policy;  // empty: none
  std::string out;
  Files system = FindSystemBundles(NamedCaFiles());
  std::string form;  // empty: by the name of `out`
};

int FailWith(const std::string& why) {
  std::cerr << "recourse: " << why << "\n";
  return kExitRuntime;
}

std::string CheckLife(const std::string& text) {
  const auto life = ParseDuration(text);
  return life && *life >= limits::kCaLifeMin && *life <= limits::kCaLifeMax
             ? std::string()
             : "'" + text + "' is not a duration from 1h to 3650d, such as 7d";
}

// Nothing: any.
FileResult<std::optional<std::vector<std::string>>> HostsOf(const std::string& policy_path) {
  if (policy_path.empty()) return std::nullopt;
  const LoadedPolicy loaded = LoadPolicyFiles(ReadPolicyTwice(policy_path), TlsFiles::kIgnore);
  if (!loaded.ok()) {
    return std::unexpected("the policy has errors; see: recourse policy check " + policy_path);
  }
  return InterceptedHosts(*loaded.policy);
}

int InitCa(const CaArguments& args) {
  SystemRandom random;
  auto hosts = HostsOf(args.policy);
  if (!hosts) return FailWith(hosts.error());
  const CaWish wish{.name = args.name,
                    .hosts = std::move(*hosts),
                    .now = SystemClock().WallNow(),
                    .life = *ParseDuration(args.life)};
  const auto kept = KeepCa(args.directory, wish, random);
  if (!kept) return FailWith(kept.error());
  if (!kept->warning.empty()) std::cerr << "recourse: " << kept->warning << "\n";
  const auto end = std::chrono::system_clock::to_time_t(kept->ca->end());
  std::cout << fmt::format("{} {}, valid until {:%Y-%m-%dT%H:%M:%SZ}\n",
                           CaCertificatePath(args.directory), WordFor(kept->state),
                           fmt::gmtime(end))
            << std::flush;
  return kExitOk;
}

int BundleCa(const CaArguments& args) {
  const auto ca = ReadCa(args.directory);
  if (!ca) return FailWith(ca.error());
  const auto form = FormOfFile(args.form.empty() ? args.out : "." + args.form);
  const auto text = ReadAndBundle(args.system, {args.out}, **ca, form, SystemClock().WallNow());
  if (!text) return FailWith(text.error() + "; name the system's CAs with --system FILE, or none");
  if (args.out.empty()) {
    std::cout << *text << std::flush;
    return std::cout ? kExitOk : kExitRuntime;
  }
  const auto written = WriteFileAtomically(args.out, *text, Readers::kEverybody);
  return written ? kExitOk : FailWith(written.error());
}

std::string CheckProxy(const std::string& url) {
  const auto backend = BackendFromUrl(url);
  const bool is_good = backend && backend->scheme == "http" && backend->base_path.empty() &&
                       url.rfind(':') > url.find("://");
  return is_good ? std::string()
                 : "'" + url + "' is not http://HOST:PORT, such as http://127.0.0.1:19080";
}

struct EnvArguments {
  AgentEnv env{
      .proxy = "http://127.0.0.1:19080", .bundle = {}, .java_trust_store = {}, .no_proxy = {}};
  std::string format = "sh";
};

// An agent has a working directory of its own.
void MakeAbsolute(std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (!path.empty() && !error) path = absolute.lexically_normal().string();
}

EnvForm FormOf(std::string_view format) {
  if (format == "dotenv") return EnvForm::kDotenv;
  if (format == "k8s") return EnvForm::kKubernetes;
  return format == "json" ? EnvForm::kJson : EnvForm::kSh;
}

}  // namespace

void AddCa(CLI::App& app, int& exit_code) {
  const auto args = std::make_shared<CaArguments>();
  CLI::App* ca = app.add_subcommand("ca", "The CA that signs what agents see of intercepted hosts");
  ca->require_subcommand(1);
  CLI::App* init = ca->add_subcommand("init", "Make the CA of a pod, once, or renew it");
  init->add_option("directory", args->directory, "Where ca.key and ca.crt are kept")->required();
  init->add_option("--name", args->name, "Name of the pod, for people")->capture_default_str();
  init->add_option("--life", args->life, "How long its certificate is valid")
      ->check(CheckLife)
      ->capture_default_str();
  init->add_option("--policy", args->policy,
                   "Lets it sign for the hosts alone that this policy intercepts");
  init->callback([args, &exit_code] { exit_code = InitCa(*args); });
  CLI::App* bundle = ca->add_subcommand("bundle", "The system's CAs and this one, for agents");
  bundle->add_option("directory", args->directory, "Directory of the CA")->required();
  bundle->add_option("--out", args->out, "File to replace at once; without it: stdout");
  bundle
      ->add_option("--system", args->system,
                   "PEM file of the CAs trusted without us, or 'none'; repeatable")
      ->allow_extra_args(false)
      ->capture_default_str();
  bundle
      ->add_option("--form", args->form,
                   "pem, or jks: a Java key store (default: jks for --out *.jks, else pem)")
      ->check(CLI::IsMember({"pem", "jks"}));
  bundle->callback([args, &exit_code] { exit_code = BundleCa(*args); });
}

void AddEnv(CLI::App& app, int& exit_code) {
  const auto args = std::make_shared<EnvArguments>();
  CLI::App* env =
      app.add_subcommand("env", "Print the variables that lead an agent's calls through Recourse");
  env->add_option("--proxy", args->env.proxy, "Where --listen is reached")
      ->check(CheckProxy)
      ->capture_default_str();
  env->add_option("--bundle", args->env.bundle, "File of `recourse ca bundle`, as agents see it");
  env->add_option("--java-trust-store", args->env.java_trust_store,
                  "File of `recourse ca bundle --form jks`, as agents see it");
  env->add_option("--no-proxy", args->env.no_proxy, "Hosts to call directly, by commas");
  env->add_option("--format", args->format, "sh, dotenv, k8s (a container's env) or json")
      ->check(CLI::IsMember({"sh", "dotenv", "k8s", "json"}))
      ->capture_default_str();
  env->callback([args, &exit_code] {
    MakeAbsolute(args->env.bundle);
    MakeAbsolute(args->env.java_trust_store);
    std::cout << Print(VariablesFor(args->env), FormOf(args->format)) << std::flush;
    std::cerr << WaysForTheOthers();
    exit_code = kExitOk;
  });
}

void AddCaOptions(CLI::App& run, CaSettings& settings) {
  settings.system = FindSystemBundles(NamedCaFiles());
  CLI::Option* const directory =
      run.add_option("--ca", settings.directory,
                     "Directory of the CA for backends with `intercept`; made when it is missing")
          ->envname("RECOURSE_CA");
  run.add_option_function<std::string>(
         "--ca-life",
         [&settings](const std::string& text) { settings.life = *ParseDuration(text); },
         "How long a certificate is valid that is made there")
      ->envname("RECOURSE_CA_LIFE")
      ->check(CheckLife)
      ->default_str("7d")
      ->needs(directory);
  run.add_option("--ca-bundle", settings.bundles,
                 "File for agents with the system's CAs and this one, *.jks for Java; repeatable")
      ->envname("RECOURSE_CA_BUNDLE")
      ->needs(directory);
  run.add_option("--ca-system", settings.system,
                 "PEM file of the CAs that agents trust without us, or 'none'; repeatable")
      ->envname("RECOURSE_CA_SYSTEM")
      ->needs(directory);
}

}  // namespace recourse
