#include "proxy/startup/startup.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "filters/ledger/lmdb/map_fault.h"
#include "filters/ledger/open/open.h"
#include "filters/ledger/shared_view.h"
#include "policy/uri/ledger_url.h"
#include "proxy/admin/access/approver_check.h"
#include "proxy/base/json/json_object.h"
#include "proxy/base/log/log.h"
#include "proxy/config/files.h"
#include "proxy/reload/policy_watch.h"
#include "proxy/startup/listening.h"
#include "proxy/startup/memory_limit.h"
#include "proxy/startup/service_manager.h"
#include "proxy/startup/supervisor.h"

namespace recourse {
namespace {

// What its pods have in common, and none can make for itself.
void JudgeSharedOrThrow(const Config& config, const LedgerPlace& place) {
  if (config.install_secret_file.empty() || config.ledger_key_file.empty()) {
    throw StartupError(kExitUsage,
                       "a shared ledger takes the secrets of its group: name them with "
                       "--install-secret-file and --ledger-key-file");
  }
  if (!place.group.empty()) return;
  throw StartupError(kExitUsage,
                     "a shared ledger needs the name of the pods that do each other's work: "
                     "`ledger: { group: NAMESPACE/WORKLOAD }` in the policy, or --ledger-group");
}

// What the command line says of the ledger, and for what it does not say the policy.
LedgerPlace PlaceOrThrow(const Config& config, const Policy& policy) {
  LedgerPlace place = policy.ledger_place;
  const auto take = [](const std::string& flag, std::string& ours, std::string_view name,
                       std::string_view word) {
    if (!flag.empty() && !ours.empty() && flag != ours) {
      throw StartupError(
          kExitUsage,
          fmt::format("{} and the policy's ledger.{} differ; leave one out", name, word));
    }
    if (!flag.empty()) ours = flag;
  };
  take(config.ledger.url, place.url, "--ledger", "url");
  take(config.ledger.password_file, place.password_file, "--ledger-password-file", "password_file");
  take(config.ledger.group, place.group, "--ledger-group", "group");
  return place;
}

// The one of --ledger or of the policy, else the one in --data.
LedgerUrl LedgerUrlOrThrow(const Config& config, const LedgerPlace& place) {
  LedgerUrl own{.store = LedgerUrl::Store::kLmdb, .place = config.data};
  const bool is_steward = config.listen.empty();
  if (place.url.empty() && !is_steward) return own;
  const std::string from = config.ledger.url.empty() ? "ledger.url" : "--ledger";
  auto url = ParseLedgerUrl(place.url);
  if (is_steward && !(url && url->is_shared())) {
    throw StartupError(kExitUsage,
                       "a steward works on a shared ledger: name it with --ledger postgres://...");
  }
  if (!url) throw StartupError(kExitUsage, from + ": " + url.error());
  if (url->store == LedgerUrl::Store::kLmdb) {
    const auto normal = [](const std::string& directory) {
      return std::filesystem::absolute(directory + "/").lexically_normal();
    };
    if (normal(url->place) == normal(config.data)) return own;
    throw StartupError(kExitUsage, from + " and --data name different directories; name one");
  }
  if (HasLedger(config.data)) {
    throw StartupError(kExitLedger,
                       from + ": " + config.data +
                           " holds a ledger, and the other one would not know its operations; name "
                           "another directory with --data");
  }
  if (url->is_shared()) JudgeSharedOrThrow(config, place);
  return std::move(*url);
}

// Beside a ledger that is elsewhere: secrets that no flag names, policies, traffic.
void MakeDirectoryOrThrow(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) throw StartupError(kExitLedger, "--data: " + directory + ": " + error.message());
}

constexpr Millis kLook{50};

// Waits for a process that drains: it holds the ledger until it has ended.
class Successor {
 public:
  Successor(const Config& config, const Clock& clock)
      : config_(config), clock_(clock), end_(clock.Now() + config.drain_timeout + kHandover) {}

  bool TryAgain(const std::string& why) {
    const auto left = std::chrono::ceil<Millis>(end_ - clock_.Now());
    if (left <= Millis(0)) return false;
    if (!has_told_) {
      (void)TellServiceManager(config_.notify_socket, MoreTime(left + kHandover));
      Log(LogLevel::kWarn, "waiting for the process that holds the ledger to end",
          {{"reason", why}, {"ms", std::to_string(left.count())}});
    }
    has_told_ = true;
    is_stopped_ = IsEndedWithin(kLook);
    return !is_stopped_;
  }
  bool is_stopped() const { return is_stopped_; }

 private:
  const Config& config_;
  const Clock& clock_;
  const MonoTime end_;
  bool has_told_ = false, is_stopped_ = false;
};

std::size_t FitToFiles(std::size_t connections_max) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return connections_max;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  // Ledger, loops and listeners have some 33; backends need some as well.
  const std::size_t own = std::min<std::size_t>(48, files.rlim_max / 2);
  const std::size_t fit = std::min<std::size_t>(files.rlim_max / 4 * 3, files.rlim_max - own);
  return std::min(fit, connections_max);
}

}  // namespace

PolicyLoader LoaderOf(const DrillOverrides* rehearsal) {
  return rehearsal == nullptr ? PolicyLoader(LoadPolicyFiles) : rehearsal->load;
}

std::shared_ptr<const Policy> LoadPolicyOrThrow(const std::string& path,
                                                const PolicySources& sources,
                                                TlsClients& backends_tls, const PolicyLoader& load,
                                                std::vector<NamedApprover>& approvers) {
  LoadedPolicy loaded = load(sources, TlsFiles::kCheck);
  for (const PolicyProblem& problem : loaded.problems) {
    if (loaded.ok()) {
      LogProblem(LogLevel::kWarn, "policy", problem.ToString());
    } else {
      std::fprintf(stderr, "%s\n", problem.ToString().c_str());
    }
  }
  if (!loaded.ok())
    throw StartupError(kExitPolicy, "the policy " + path + " has errors, see above");
  if (auto prepared = backends_tls.Prepare(*loaded.policy); !prepared) {
    throw StartupError(kExitPolicy, prepared.error());
  }
  approvers = std::move(loaded.approvers);
  return loaded.policy;
}

void JudgePlacesOrThrow(const Config& config) {
  std::vector<AddressOfFlag> addresses;
  if (!config.listen.empty()) addresses.push_back({"--listen", config.listen});
  addresses.push_back({"--admin", config.admin});
  addresses.push_back({"--probes", config.probes});
  if (config.redirect_port != 0) {
    addresses.push_back({"--redirect", fmt::format("127.0.0.1:{}", config.redirect_port)});
  }
  // Who drains keeps some until it lets go of the ledger, which is then waited for.
  JudgeAddressesOrThrow(addresses, HasLedger(config.data) ? Taken::kMayEnd : Taken::kIsWrong);
  if (config.ports_file.empty()) return;
  const std::string parent = std::filesystem::path(config.ports_file).parent_path().string();
  if (::access(parent.empty() ? "." : parent.c_str(), W_OK) == 0) return;
  throw StartupError(kExitUsage, fmt::format("--ports-file: cannot write {}: {}", config.ports_file,
                                             std::strerror(errno)));
}

void JudgeSecretsOrThrow(const LedgerSecretFiles& secrets, Mode mode) {
  const auto good = secrets.Judge();
  if (!good && mode == Mode::kEnforce) throw StartupError(kExitLedger, good.error());
}

void LeaveFirstProcessIfShared(const Config& config, const Policy& policy) {
  const auto url = ParseLedgerUrl(PlaceOrThrow(config, policy).url);
  if (url && url->is_shared()) WorkInChildOfFirst();
}

std::unique_ptr<Ledger> OpenLedgerOrThrow(const Config& config, LedgerSecretFiles& secrets,
                                          const Policy& policy, const Clock& clock,
                                          const DrillOverrides* rehearsal) {
  ExitOnMapFault(kExitLedger);
  Successor successor(config, clock);
  // A rehearsal is of this directory alone, whatever the policy names.
  const LedgerPlace place = rehearsal == nullptr ? PlaceOrThrow(config, policy) : LedgerPlace();
  OpenOptions options{.place = place, .observes = policy.mode == Mode::kObserve};
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof host - 1) == 0) options.pod = host;
  options.embedded = {
      .directory = config.data,
      .map_bytes = config.ledger_bytes_max,
      .unsafe_fs = config.unsafe_fs,
      .expected = config.expect_ledger,
      .try_again = [&successor](const std::string& why) { return successor.TryAgain(why); },
      .secrets = [&secrets](const LedgerFacts& facts) { return secrets.Load(facts); }};
  if (rehearsal != nullptr) options.log = rehearsal->log;
  const LedgerUrl url = LedgerUrlOrThrow(config, place);
  if (url.store != LedgerUrl::Store::kLmdb) MakeDirectoryOrThrow(config.data);
  auto ledger = OpenLedger(url, std::move(options), clock);
  if (ledger) return std::move(*ledger);
  std::string& why = ledger.error().why;
  if (successor.is_stopped()) throw StartupError(kExitOk, "ended by a signal: " + why);
  // Whoever restarts what may pass lets a database come up after this process.
  const int exit_code = ledger.error().may_pass ? kExitRuntime : kExitLedger;
  if (policy.mode != Mode::kObserve) throw StartupError(exit_code, why);
  Log(LogLevel::kError, "observe mode goes on WITHOUT a ledger: calls pass, nothing is recorded",
      {{"reason", why}, {"advice", "mend that and restart"}});
  return MakeUnopenedLedger(std::move(why));
}

const Clock& ClockOf(Ledger& ledger, const Clock& own) {
  const auto* const shared = dynamic_cast<SharedLedgerView*>(&ledger);
  return shared == nullptr ? own : shared->GroupClock();
}

// The agents of a volume that was imported keep their name: repeats are known by it.
CallerIdentity UncertifiedOf(Ledger& ledger) {
  auto* const shared = dynamic_cast<SharedLedgerView*>(&ledger);
  if (shared == nullptr || shared->HasImported()) return {};
  return {.name = shared->Group() + "/" + CallerIdentity().name, .of = CallerIdentity::Of::kGroup};
}

std::string ReadTokenOrThrow(const std::string& path) {
  if (path.empty()) return {};
  if (IsWorldReadable(path)) {
    Log(LogLevel::kWarn, "every user of this machine can read the admin token; chmod 600 it",
        {{"file", path}});
  }
  auto token = ReadSecretFile(path);
  if (!token) throw StartupError(kExitUsage, "--admin-token-file: " + token.error());
  if (token->size() < limits::kUnguessableBytes) {
    Log(LogLevel::kWarn, "the admin token has fewer than 32 bytes and may be guessed",
        {{"file", path}, {"advice", "openssl rand -hex 32"}});
  }
  return *token;
}

void StartOperatorsOrThrow(OperatorStore& desk, const Config& config,
                           const std::vector<NamedApprover>& approvers) {
  const auto problems = desk.Start();
  for (const PolicyProblem& problem : problems) {
    std::fprintf(stderr, "%s\n", problem.ToString().c_str());
  }
  if (!problems.empty()) {
    throw StartupError(kExitPolicy,
                       "the operators " + config.operators + " have errors, see above");
  }
  const auto doubts = config.operators.empty()
                          ? ApproversWithoutFile(approvers)
                          : ApproversThatNobodyIs(approvers, *desk.Current(), config.operators);
  for (const PolicyProblem& problem : doubts) {
    LogProblem(LogLevel::kWarn, "policy", problem.ToString());
  }
}

void WarnOfPlainAdmin(const Config& config, const Tcp::endpoint& endpoint) {
  if (!config.admin_tls_cert.empty() || endpoint.address().is_loopback()) return;
  Log(LogLevel::kWarn,
      "the admin port is open to the network without TLS: whoever listens reads tokens",
      {{"advice", "give --admin-tls-cert and --admin-tls-key, or end TLS before it"}});
}

void WarnOfFlowsOfOneStep(const Policy& policy) {
  const bool has_undo = std::ranges::any_of(policy.tools, [](const Tool& tool) {
    return tool.undo.has_value() || tool.breaks_flow != BreaksFlow::kNever;
  });
  if (policy.flow_rules.without_trace.kind != WithoutTrace::Kind::kNone || !has_undo) return;
  Log(LogLevel::kWarn,
      "a write that comes without a trace is a flow of one step: what breaks it undoes no other",
      {{"advice",
        "have agents send traceparent, or set `flow_rules: { without_trace: session | header:X | "
        "pod }`; `recourse status` counts such writes"}});
}

std::string MadeUpVia(Random& random) {
  unsigned char nonce[4];
  random.Fill(nonce);
  return "1.1 recourse-" + ToHex({reinterpret_cast<char*>(nonce), sizeof nonce});
}

TlsServerFiles TlsFilesOf(const Config& config) {
  return {config.tls_cert, config.tls_key, config.tls_client_ca, /*client_may_be_unknown=*/false};
}

TlsServerFiles AdminTlsFilesOf(const Config& config) {
  return {config.admin_tls_cert, config.admin_tls_key, config.admin_client_ca,
          /*client_may_be_unknown=*/true};
}

std::shared_ptr<const TlsServer> TlsServerOrThrow(const TlsServerFiles& files, const char* flag) {
  if (files.certificate.empty()) return nullptr;
  auto server = TlsServer::Make(files);
  if (!server) {
    throw StartupError(kExitUsage, std::string(flag) + " and its like: " + server.error());
  }
  return std::move(*server);
}

ServerTls::ServerTls(const TlsServerFiles& files, const char* flag)
    : files_(files),
      flag_(flag),
      state_({files.certificate, files.key, files.client_ca}),
      first_(TlsServerOrThrow(files, flag)) {}

std::shared_ptr<const TlsServer> ServerTls::Refresh(FileState::Look look) {
  if (first_ == nullptr || !state_.HasChanged(look)) return nullptr;
  auto server = TlsServer::Make(files_);
  if (!server) {
    Log(LogLevel::kError, "the listener keeps its certificate: the new one cannot be used",
        {{"flag", flag_}, {"reason", server.error()}});
    return nullptr;
  }
  Log(LogLevel::kInfo, "the listener's certificates were read again", {{"flag", flag_}});
  return std::move(*server);
}

void WritePortsOrThrow(const std::string& path, std::uint16_t listen, std::uint16_t admin,
                       std::uint16_t probes) {
  if (path.empty()) return;
  const std::string text = ObjectText([&](JsonObject& json) {
                             json.Number("listen", listen);
                             json.Number("admin", admin);
                             json.Number("probes", probes);
                           }) +
                           "\n";
  if (auto written = WriteFileAtomically(path, text); !written) {
    throw StartupError(kExitRuntime, "--ports-file: " + written.error());
  }
}

bool IsEndedWithin(Millis pause) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(pause);
  const timespec time{seconds.count(), std::chrono::nanoseconds(pause - seconds).count()};
  return ::sigtimedwait(&signals, nullptr, &time) > 0;
}

void BlockSignals() {
  BlockWatchedSignals();  // every thread inherits the mask; the main thread takes the signals
  ::signal(SIGPIPE, SIG_IGN);
  // A file size limit then fails the write instead of ending the process: the ledger latches.
  ::signal(SIGXFSZ, SIG_IGN);
}

Config FittedToMachine(Config config) {
  ClientBounds& bounds = config.bounds;
  bounds.connections_max = FitToFiles(bounds.connections_max);
  if (bounds.call_memory_bytes == 0) bounds.call_memory_bytes = CallMemoryFor(MemoryLimit());
  return config;
}

void WarnOfFewFiles(const ClientBounds& wanted, const ClientBounds& fitted) {
  if (fitted.connections_max >= wanted.connections_max) return;
  Log(LogLevel::kWarn, "fewer connections than --connections-max: raise the limit of open files",
      {{"connections", std::to_string(fitted.connections_max)}});
}

}  // namespace recourse
