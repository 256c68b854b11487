#include "proxy/process/runtime.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <optional>
#include <system_error>

#include "filters/call/flow_name.h"
#include "filters/chain/chain.h"
#include "filters/ledger/lmdb/map_fault.h"
#include "filters/settle/settle_worker.h"
#include "policy/files/sources.h"
#include "proxy/admin/api/admin_api.h"
#include "proxy/base/crash_point.h"
#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"
#include "proxy/base/random.h"
#include "proxy/config/files.h"
#include "proxy/downstream/agent_listener.h"
#include "proxy/exchange/body_reservation.h"
#include "proxy/net/beast/http_server.h"
#include "proxy/net/tls/tls_client.h"
#include "proxy/process/all_lanes.h"
#include "proxy/process/approval_service.h"
#include "proxy/process/flow_service.h"
#include "proxy/process/ledger_head_signer.h"
#include "proxy/process/report_counts.h"
#include "proxy/process/tracing_service.h"
#include "proxy/reload/policy_reload.h"
#include "proxy/reload/policy_watch.h"
#include "proxy/startup/ledger_secrets.h"
#include "proxy/startup/listening.h"
#include "proxy/startup/ready_text.h"
#include "proxy/startup/service_manager.h"
#include "proxy/startup/startup.h"
#include "proxy/telemetry/unguarded_watch.h"

namespace recourse {
namespace {

// Everything that runs, in order of construction; destroyed in reverse.
class Runtime {
 public:
  Runtime(const Config& config, const Clock& clock, const DrillOverrides* rehearsal)
      : config_(config),
        clock_(clock),
        clock_speed_(rehearsal == nullptr ? 1 : rehearsal->speed),
        policy_files_(ReadPolicyTwice(config.policy)),
        versions_(LoadPolicyOrThrow(config.policy, policy_files_, backends_tls_,
                                    LoaderOf(rehearsal), approvers_)),
        minter_(clock_, random_),
        ca_(config.ca, clock_, random_, minter_),
        secrets_(config.data, config.ledger_key_file, config.install_secret_file, random_),
        operators_(config.operators, clock_),
        door_({.desk = operators_,
               .clock = clock_,
               .random = random_,
               .admin_token = ReadTokenOrThrow(config.admin_token_file),
               .hosts = config.admin_hosts}),
        metrics_(clock_.WallNow()),
        traces_(config.otlp, metrics_, clock_, random_),
        services_(config.bounds.call_memory_bytes),
        agents_({.config = config,
                 .services = services_,
                 .threads = threads_,
                 .workers = workers_,
                 .lanes = lanes_}),
        head_key_(HeadKeyOrThrow(config.ledger_head_key)),
        access_log_(Judged().access_log),
        ledger_(OpenLedgerOrThrow(config, secrets_, *versions_.Current(), clock_, rehearsal)),
        reloader_({.path = config.policy,
                   .versions = versions_,
                   .tls = backends_tls_,
                   .ca = ca_,
                   .archive = config.data + "/policies",
                   .load = LoaderOf(rehearsal),
                   .ledger = *ledger_,
                   .metrics = metrics_,
                   .clock = clock_,
                   .publish = [this](std::shared_ptr<const Policy> policy) { Publish(policy); },
                   .look_soon = [this] { watch_->Wake(); }},
                  policy_files_),
        admin_api_({.ledger = *ledger_,
                    .clock = clock_,
                    .door = door_,
                    .reloader = reloader_,
                    .counts = [this] { return CountsOf(workers_, metrics_, observer_); },
                    .flows = [this]() -> FlowApi& { return flows_->api(); },
                    .operations = [this]() -> OperationApi& { return flows_->operations(); },
                    .approvals = [this]() -> ApprovalApi& { return approvals_->api(); },
                    .work = [this] { return WorkForStatus(); },
                    .drain = [this] { BeginDrain(); }}),
        probe_api_(
            *ledger_, metrics_, [this] { return FactsForScrape(); }, [this] { return Observes(); }),
        observer_(*ledger_, random_, secrets_.KeySecretOf(*ledger_)) {
    services_.ledger = ledger_.get();
    services_.uncertified = UncertifiedOf(*ledger_);
    services_.access_log = &access_log_;
    services_.observer = &observer_;
    services_.metrics = &metrics_;
    services_.clock = &clock_;
    services_.random = &random_;
    services_.minter = &minter_;
    services_.bounds = config.bounds;
    services_.UseInstallSecret(secrets_.KeySecretOf(*ledger_));
    services_.ledger_secret = secrets_.SecretOf(*ledger_);
    services_.pod_flow = PodFlowName(services_.install_secret, config.pod);
    services_.traffic = RecorderIn(config.data, secrets_.install_secret(), random_);
    ledger_->OnCommit([this](double seconds, std::size_t rows) {
      metrics_.commit_seconds.Observe(seconds);
      metrics_.commit_rows.Increment(static_cast<double>(rows));
      admin_api_.Notify();
    });
  }

  void Start(const DrillOverrides* rehearsal);
  // Until a signal, or a ledger latched for `--latched-for`; takes changed policies meanwhile.
  void WaitForEnd();
  void ReloadFiles();
  void Drain();
  // Ends the process: suspended coroutines are abandoned, the ledger is closed cleanly first.
  [[noreturn]] void Exit();

 private:
  const Config& Judged();  // once all is judged that makes nothing on disk
  void StartWorkers();
  void RefreshTls(FileState::Look look);
  void FreeFiles();  // for whom no I/O thread serves, such as probes
  ScrapeFacts FactsForScrape() const;
  ProcessApi::Work WorkForStatus() const;
  void BeginDrain();
  bool Observes() const { return versions_.Current()->mode == Mode::kObserve; }
  Millis LongestWait() const;
  bool HasThreads() const { return probe_api_.ready || services_.draining; }  // as many for good
  void Publish(const std::shared_ptr<const Policy>& policy);
  const Config& config_;
  const Clock& clock_;
  const int clock_speed_;
  SystemRandom random_;
  const PolicySources policy_files_;  // as they were at the start
  TlsClients backends_tls_;
  std::vector<NamedApprover> approvers_;  // likewise
  PolicyVersions versions_;
  LeafIssuer minter_;
  CaRotation ca_;
  LedgerSecretFiles secrets_;
  OperatorStore operators_;
  AccessControl door_;
  ServerTls admin_tls_{AdminTlsFilesOf(config_), "--admin-tls-cert"};
  Metrics metrics_;
  TracingService traces_;
  Services services_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::vector<std::unique_ptr<Worker>> workers_;
  AllLanes all_lanes_;
  const Lanes lanes_ = all_lanes_.lanes();
  AgentListener agents_;
  KeyPtr head_key_;
  AccessLog access_log_;  // from here on files are made, the ledger's last
  std::unique_ptr<Ledger> ledger_;
  PolicyReloader reloader_;
  AdminApi admin_api_;
  ProbeApi probe_api_;
  Observer observer_;
  std::unique_ptr<HttpServer> probes_, admin_;
  std::unique_ptr<SettleWorker> settle_worker_;
  std::unique_ptr<FlowService> flows_;
  std::unique_ptr<ApprovalService> approvals_;
  LedgerHeadSigner heads_{config_, std::move(head_key_), *ledger_, clock_};
  std::optional<UnguardedWatch> unguarded_;
  std::optional<PolicyWatch> watch_;  // since Start: later there may be no descriptor left for it
};

const Config& Runtime::Judged() {
  LeaveFirstProcessIfShared(config_, *versions_.Current());  // before any thread
  JudgePlacesOrThrow(config_);
  StartOperatorsOrThrow(operators_, config_, approvers_);
  JudgeSecretsOrThrow(secrets_, versions_.Current()->mode);
  services_.via = MadeUpVia(random_);
  services_.tracer = traces_.Open(services_.own, services_.via);
  if (const auto signs = ca_.Prepare(*versions_.Current()); !signs) {
    // With a directory it is a file of the command line's that is wrong, else the policy.
    throw StartupError(config_.ca.directory.empty() ? kExitPolicy : kExitUsage, signs.error());
  }
  return config_;
}

void Runtime::Start(const DrillOverrides* rehearsal) {
  const auto book = operators_.Current();
  watch_.emplace(std::vector<std::string>{config_.policy, config_.operators,
                                          book->jwt ? book->jwt->jwks_file : std::string()},
                 clock_);
  if (const auto started = reloader_.Start(policy_files_); !started) {
    throw StartupError(kExitLedger, config_.data + ": " + started.error());
  }
  ledger_->SetRule(versions_.Current()->ledger);
  WarnOfFlowsOfOneStep(*versions_.Current());
  ListenOrThrow("--probes", config_.probes, [this](const Tcp::endpoint& endpoint) {
    probes_ = std::make_unique<HttpServer>(
        endpoint,
        [this](const HttpRequest& request, const HttpPeer&) { return probe_api_.Handle(request); },
        HttpServerSettings{.thread = "recourse-probes", .free_files = [this] { FreeFiles(); }});
  });
  StartWorkers();
  ListenOrThrow("--admin", config_.admin, [this](const Tcp::endpoint& endpoint) {
    WarnOfPlainAdmin(config_, endpoint);
    admin_ = std::make_unique<HttpServer>(
        endpoint,
        [this](const HttpRequest& request, const HttpPeer& peer) {
          return admin_api_.Handle(request, peer);
        },
        HttpServerSettings{.thread = "recourse-admin",
                           .tls = admin_tls_.First(),
                           .free_files = [this] { FreeFiles(); }});
  });
  if (!config_.listen.empty()) agents_.Listen(config_.listen);
  if (config_.redirect_port != 0) agents_.ListenForRedirected(config_.redirect_port);
  for (const Tcp::endpoint& endpoint : agents_.endpoints()) services_.own.Add(endpoint);
  for (HttpServer* const at : {admin_.get(), probes_.get()}) services_.own.Add(at->endpoint());
  agents_.Start();
  for (std::size_t i = 0; auto& one : threads_) one->Start("recourse-io-" + std::to_string(i++));
  traces_.Start();
  if (config_.watch_unguarded) {
    unguarded_.emplace([this] { return versions_.Current(); },
                       Guarded{::geteuid(), config_.redirect_port}, metrics_, clock_);
  }
  ExitOnMapFault(kExitLedgerCut);
  probe_api_.ready = true;
  const Listeners on{agents_.endpoint(), admin_->endpoint(), probes_->endpoint()};
  WritePortsOrThrow(config_.ports_file, on.agents.port(), on.admin.port(), on.probes.port());
  (void)TellServiceManager(config_.notify_socket, "READY=1");
  TellReady(config_, *versions_.Current(), on);
  if (rehearsal != nullptr) rehearsal->ready(on.agents.port(), on.admin.port());
}

void Runtime::StartWorkers() {
  for (int i = 0; i < config_.threads; ++i) {
    threads_.push_back(std::make_unique<IoThread>(clock_, clock_speed_));
    workers_.push_back(std::make_unique<Worker>(services_, *threads_.back(), versions_.Current(),
                                                versions_.Earlier()));
  }
  std::vector<FilePressure*> all;
  for (const auto& thread : threads_) all.push_back(&thread->files());
  for (FilePressure* const files : all) files->HasPeers(all);
  settle_worker_ = std::make_unique<SettleWorker>(SettleWorker::Parts{
      .ledger = *ledger_,
      .upstream = workers_.front()->upstream,
      .executor = *threads_.front(),
      .timer = *threads_.front(),
      .clock = ClockOf(*ledger_, clock_),
      .random = random_,
      .policy = [this](const std::string& version) { return versions_.Of(version); },
      .breaks_flow = [this](const Event& settled) { flows_->runner().Watch(settled); },
      .probed = [this](const std::string& tool,
                       ProbeVerdict verdict) { metrics_.CountProbe(tool, NameOf(verdict)); },
      .tracing = services_.tracer,
      .read_secret = ReadSecretFile,
      .keep = KeepOwnWithin(services_.budget),
      .install_secret = services_.install_secret});
  services_.settling = settle_worker_.get();
  flows_ = std::make_unique<FlowService>(FlowService::Parts{.ledger = *ledger_,
                                                            .worker = *workers_.front(),
                                                            .settling = *settle_worker_,
                                                            .clock = ClockOf(*ledger_, clock_),
                                                            .random = random_,
                                                            .versions = versions_,
                                                            .metrics = metrics_,
                                                            .tracing = services_.tracer});
  approvals_ =
      std::make_unique<ApprovalService>(ApprovalService::Parts{.ledger = *ledger_,
                                                               .worker = *workers_.front(),
                                                               .clock = ClockOf(*ledger_, clock_),
                                                               .versions = versions_,
                                                               .metrics = metrics_,
                                                               .webhook = flows_->webhook()});
  heads_.TellTo([this](std::string news) { flows_->webhook().TellHead(std::move(news)); });
  for (const auto& worker : workers_) {
    worker->tls = agents_.tls();
    worker->chain = MakeChain({.ledger = *ledger_,
                               .upstream = worker->upstream,
                               .settling = *settle_worker_,
                               .flowing = flows_->runner(),
                               .approving = approvals_->runner(),
                               .clock = clock_,
                               .random = random_,
                               .install_secret = services_.install_secret,
                               .ledger_secret = services_.ledger_secret,
                               .read_secret = ReadSecretFile,
                               .tracing = services_.tracer});
  }
  // Probes are requests of ours, and observe mode sends none.
  if (versions_.Current()->mode == Mode::kEnforce) {
    PostJob(*threads_.front(), [this] { Spawn(settle_worker_->Run(), [] {}); });
    flows_->Start();
    approvals_->Start();
    ledger_->OnTakeOver([this] {
      reloader_.TakeOver(), settle_worker_->LoadMore(), flows_->LoadMore(), approvals_->LoadMore();
    });
  }
}

void Runtime::FreeFiles() {
  if (!HasThreads()) return;
  for (const auto& one : threads_) PostJob(*one, [asked = one.get()] { asked->files().Free(); });
}

// Certificates are rotated under running connections, which keep what they began with.
void Runtime::RefreshTls(FileState::Look look) {
  if (backends_tls_.Refresh(look)) {
    for (const auto& worker : workers_) {
      PostJob(worker->thread, [target = worker.get()] { target->ClearIdle(); });
    }
  }
  if (const auto fresh = admin_tls_.Refresh(look)) admin_->UseTls(fresh);
  agents_.RefreshTls(look);
  ca_.Look(*versions_.Current());
}

ScrapeFacts Runtime::FactsForScrape() const {
  ScrapeFacts facts{.log_lines_dropped = access_log_.dropped(),
                    .served_bytes = services_.budget.held(CallBudget::Of::kServed),
                    .observed_bytes = services_.budget.held(CallBudget::Of::kObserved),
                    .call_memory_bytes = services_.budget.bytes_max()};
  if (!HasThreads()) return facts;
  for (const auto& thread : threads_) facts.backend_connections += thread->backend_connections();
  return facts;
}

ProcessApi::Work Runtime::WorkForStatus() const {
  return {.is_ready = probe_api_.ready,
          .is_draining = services_.draining,
          .connections = services_.connections,
          .writes = services_.write_flows + services_.observing,
          .approved = approvals_->sending(),
          .flow_counts = metrics_.WritesByFlow(),
          .unknown_callers = metrics_.CallsOfNobody(),
          .settling = settle_worker_->settling(),
          .mcp_tools = &all_lanes_.tools(),
          .agents_port = agents_.endpoint().port()};
}

void Runtime::ReloadFiles() {
  if (const auto reloaded = secrets_.Reload(); !reloaded) {
    Log(LogLevel::kError, "the ledger keys stay as they are", {{"reason", reloaded.error()}});
  }
  RefreshTls(FileState::Look::kAtOnce);
  access_log_.Reopen();
  operators_.Reload();
  (void)reloader_.Reload("signal");
}

// Whether the ledger latched is found out an eighth of --latched-for late at most.
Millis Runtime::LongestWait() const {
  if (services_.draining) return limits::kLatchLook;
  if (config_.latched_for == Millis(0)) return limits::kPolicyPoll;
  return std::clamp<Millis>(config_.latched_for / 8, limits::kLatchLook, limits::kPolicyPoll);
}

void Runtime::WaitForEnd() {
  MonoTime look = clock_.Now();  // the files may have changed while everything was started
  std::optional<MonoTime> end;
  for (;;) {
    const MonoTime next = std::min({look, heads_.due(), end.value_or(MonoTime::max())});
    const auto left = std::chrono::ceil<Millis>(next - clock_.Now());
    switch (watch_->Wait(std::min<Millis>(left, LongestWait()))) {
      case PolicyWatch::Event::kStop:
        return;
      case PolicyWatch::Event::kReload:
        ReloadFiles();
        break;
      case PolicyWatch::Event::kNotice:
        look = clock_.Now();
        break;
      case PolicyWatch::Event::kTime:
        break;
    }
    if (clock_.Now() >= look) {
      look = clock_.Now() + std::min(reloader_.Look(), operators_.Look());
      RefreshTls(FileState::Look::kSettled);
    }
    if (services_.draining) agents_.EndIdle();
    heads_.Look();
    // In observe mode a ledger that cannot be written stops nothing.
    if (Observes() || config_.latched_for <= Millis(0) || !ledger_->OwnStats().latched) continue;
    if (!end) {
      end = clock_.Now() + config_.latched_for;
      Log(LogLevel::kError, "reads are served a while longer; then the process ends for a restart",
          {{"ms", std::to_string(config_.latched_for.count())}});
    }
    if (clock_.Now() >= *end) return;
  }
}

// Every thread has the policy when this returns, so whoever reports the reload speaks for all.
void Runtime::Publish(const std::shared_ptr<const Policy>& policy) {
  ledger_->SetRule(policy->ledger);
  for (const auto& worker : workers_) {
    RC_CRASH_POINT("k25");
    std::promise<void> taken;
    const auto is_taken = taken.get_future();
    PostJob(worker->thread, [taken = std::move(taken), target = worker.get(),
                             view = std::make_shared<PolicyView>(policy, versions_.Earlier(),
                                                                 services_)]() mutable {
      target->view = std::move(view);
      target->ClearIdle();
      taken.set_value();
    });
    is_taken.wait();
  }
  approvals_->runner().PolicyChanged();
}

// By a signal, or by an operator: then the process stays, and flows are undone meanwhile.
void Runtime::BeginDrain() {
  if (services_.draining.exchange(true)) return;
  Log(LogLevel::kInfo, "draining");
  probe_api_.ready = false;
  agents_.Close();
  agents_.EndIdle();
  watch_->Wake();
}

void Runtime::Drain() {
  (void)TellServiceManager(config_.notify_socket,
                           "STOPPING=1\n" + MoreTime(config_.drain_timeout + kHandover));
  BeginDrain();
  const MonoTime end = clock_.Now() + config_.drain_timeout;
  flows_->Stop();
  approvals_->Stop();
  // An undo request that is cut off may be one that must not be repeated.
  while ((services_.connections > 0 || services_.observing > 0 || flows_->undoes() ||
          approvals_->sends()) &&
         clock_.Now() < end) {
    agents_.EndIdle();
    if (IsEndedWithin(Millis(20))) {
      Log(LogLevel::kWarn, "second signal: exiting now");
      break;
    }
  }
}

void Runtime::Exit() {
  reloader_.Close();  // a reload waits for the I/O threads, and so do operators' orders
  flows_->runner().operators().Close();
  approvals_->runner().Close();
  for (const auto& thread : threads_) thread->Stop();
  for (const auto& worker : workers_) worker->Join();
  traces_.Finish();
  admin_.reset();
  admin_api_.Close();
  probes_.reset();
  const bool refused = ledger_->OwnStats().latched && !Observes();
  heads_.Finish();
  services_.traffic.reset();
  ledger_.reset();
  Log(LogLevel::kInfo, "stopped");
  access_log_.Close();
  std::_Exit(refused ? kExitLatched : kExitOk);
}

}  // namespace

int RunProxy(const Config& given, const DrillOverrides* rehearsal) {
  BlockSignals();
  KeepMemoryPrivate();
  const Config config = FittedToMachine(given);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(limits::kOwnPagesFromBytes));
  // Outlives the handlers below: threads that run already read it until the process has ended.
  const SystemClock system_clock;
  try {
    const Clock& clock = rehearsal == nullptr ? system_clock : rehearsal->clock;
    // Never destroyed: Exit() ends the process while coroutines are still suspended.
    auto* const runtime = new Runtime(config, clock, rehearsal);
    WarnOfFewFiles(given.bounds, config.bounds);
    runtime->Start(rehearsal);
    runtime->WaitForEnd();
    runtime->Drain();
    runtime->Exit();
  } catch (const StartupError& error) {
    std::fprintf(stderr, "recourse: %s\n", error.what());
    std::_Exit(error.exit_code);  // threads may be running already
  } catch (const std::system_error& error) {
    const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(
        stderr, "recourse: cannot start%s: %s\n",
        no_thread ? " a thread; raise the limit of processes (ulimit -u, pids of the pod)" : "",
        error.what());
    std::_Exit(kExitRuntime);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recourse: cannot start: %s\n", error.what());
    std::_Exit(kExitRuntime);
  }
}

}  // namespace recourse
