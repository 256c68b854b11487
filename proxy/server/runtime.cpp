#include "proxy/server/runtime.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <unordered_set>

#include "filters/settle/settler.h"
#include "policy/loader.h"
#include "policy/route_table.h"
#include "proxy/base/log.h"
#include "proxy/base/random.h"
#include "proxy/net/http_server.h"
#include "proxy/net/listener.h"
#include "proxy/server/admin.h"
#include "proxy/server/chain.h"
#include "proxy/server/files.h"
#include "proxy/server/session.h"

namespace recourse {
namespace {

class StartupError : public std::runtime_error {
 public:
  StartupError(int exit_code, const std::string& what)
      : std::runtime_error(what), exit_code(exit_code) {}
  const int exit_code;
};

std::shared_ptr<const Policy> LoadPolicyOrThrow(const std::string& path) {
  LoadedPolicy loaded = LoadPolicy(path);
  for (const PolicyProblem& problem : loaded.problems) {
    if (loaded.ok()) {
      Log(LogLevel::kWarn, "policy", {{"problem", problem.ToString()}});
    } else {
      std::fprintf(stderr, "%s\n", problem.ToString().c_str());
    }
  }
  if (!loaded.ok())
    throw StartupError(kExitPolicy, "the policy " + path + " has errors, see above");
  if (loaded.policy->mode == Mode::kObserve) {
    throw StartupError(kExitPolicy, "mode: observe is not supported by this version; use enforce");
  }
  return loaded.policy;
}

std::unique_ptr<Ledger> OpenLedgerOrThrow(const Config& config, const Clock& clock) {
  auto ledger =
      OpenLmdbLedger({.directory = config.data, .map_bytes = config.ledger_bytes_max}, clock);
  if (!ledger) throw StartupError(kExitLedger, ledger.error());
  return std::move(*ledger);
}

std::string ReadTokenOrThrow(const std::string& path) {
  if (path.empty()) return {};
  auto token = ReadSecretFile(path);
  if (!token) throw StartupError(kExitUsage, "--admin-token-file: " + token.error());
  return *token;
}

std::string SecretOrThrow(const std::string& directory, bool ledger_has_rows, Random& random) {
  auto secret = LoadOrCreateInstallSecret(directory, ledger_has_rows, random);
  if (!secret) throw StartupError(kExitLedger, secret.error());
  return *secret;
}

Tcp::endpoint EndpointOrThrow(const std::string& text, const char* flag) {
  const auto colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  IoError ec;
  const auto address = boost::asio::ip::make_address(host, ec);
  std::uint16_t port = 0;
  const char* const first = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
  const char* const last = text.data() + text.size();
  const auto parsed = std::from_chars(first, last, port);
  if (ec || first == last || parsed.ec != std::errc() || parsed.ptr != last) {
    throw StartupError(kExitUsage, std::string(flag) + ": '" + text +
                                       "' is not ADDRESS:PORT, e.g. 127.0.0.1:19080");
  }
  return {address, port};
}

// Parses `address` and listens there; says which flag named it when that fails.
template <class Listen>
void ListenOrThrow(const char* flag, const std::string& address, Listen listen) {
  const Tcp::endpoint endpoint = EndpointOrThrow(address, flag);
  try {
    listen(endpoint);
  } catch (const boost::system::system_error& error) {
    throw StartupError(kExitRuntime, std::string("cannot listen on ") + flag + " " + address +
                                         ": " + error.code().message() +
                                         "; name another address with this flag");
  }
}

// Everything that runs, in order of construction; destroyed in reverse.
class Runtime {
 public:
  explicit Runtime(const Config& config)
      : config_(config),
        policy_(LoadPolicyOrThrow(config.policy)),
        ledger_(OpenLedgerOrThrow(config, clock_)),
        secret_(SecretOrThrow(config.data, ledger_->Stats().operations > 0, random_)),
        access_log_(config.access_log),
        metrics_(*policy_, clock_.WallNow()),
        admin_api_(*ledger_, ReadTokenOrThrow(config.admin_token_file), policy_->version),
        probe_api_(*ledger_, metrics_, access_log_) {
    services_.policy = policy_;
    services_.ledger = ledger_.get();
    services_.access_log = &access_log_;
    services_.metrics = &metrics_;
    services_.clock = &clock_;
    unsigned char nonce[4];
    random_.Fill(nonce);
    services_.via = "1.1 recourse-" + ToHex({reinterpret_cast<char*>(nonce), sizeof nonce});
    ledger_->OnCommit([this](double seconds, std::size_t rows) {
      metrics_.commit_seconds.Observe(seconds);
      metrics_.commit_rows.Increment(static_cast<double>(rows));
    });
  }

  void Start();
  void WaitForSignal();
  void Drain();
  // Ends the process: suspended coroutines are abandoned, the ledger is closed cleanly first.
  [[noreturn]] void Exit();

 private:
  void StartWorkers();
  void Serve(std::size_t index, TcpSocket socket);
  void WritePorts();
  void SweepPools();

  const Config& config_;
  const SystemClock clock_;
  SystemRandom random_;
  std::shared_ptr<const Policy> policy_;
  std::unique_ptr<Ledger> ledger_;
  const std::string secret_;
  AccessLog access_log_;
  Metrics metrics_;
  AdminApi admin_api_;
  ProbeApi probe_api_;
  Services services_;
  std::unique_ptr<HttpServer> probes_, admin_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unordered_set<Session*>> sessions_;  // by worker, each used on its own thread
  std::unique_ptr<Settler> settler_;
  std::unique_ptr<Listener> listener_;
};

void Runtime::Start() {
  ListenOrThrow("--probes", config_.probes, [this](const Tcp::endpoint& endpoint) {
    probes_ = std::make_unique<HttpServer>(
        endpoint, [this](const HttpRequest& request) { return probe_api_.Handle(request); });
  });
  ListenOrThrow("--admin", config_.admin, [this](const Tcp::endpoint& endpoint) {
    admin_ = std::make_unique<HttpServer>(
        endpoint, [this](const HttpRequest& request) { return admin_api_.Handle(request); });
  });
  StartWorkers();
  std::vector<IoThread*> threads;
  for (const auto& thread : threads_) threads.push_back(thread.get());
  ListenOrThrow("--listen", config_.listen, [&](const Tcp::endpoint& endpoint) {
    listener_ = std::make_unique<Listener>(
        threads, endpoint,
        [this](std::size_t index, TcpSocket socket) { Serve(index, std::move(socket)); });
  });
  services_.own.Add(listener_->endpoint());
  services_.own.Add(admin_->endpoint());
  services_.own.Add(probes_->endpoint());
  listener_->Start();
  for (const auto& thread : threads_) thread->Start();
  probe_api_.ready = true;
  WritePorts();
  Log(LogLevel::kInfo, "ready",
      {{"listen", std::to_string(listener_->endpoint().port())},
       {"admin", std::to_string(admin_->endpoint().port())},
       {"probes", std::to_string(probes_->endpoint().port())},
       {"policy", policy_->version}});
}

void Runtime::StartWorkers() {
  for (int i = 0; i < config_.threads; ++i) {
    threads_.push_back(std::make_unique<IoThread>(clock_));
    workers_.push_back(std::make_unique<Worker>(services_, *threads_.back()));
  }
  sessions_.resize(workers_.size());
  settler_ = std::make_unique<Settler>(Settler::Parts{.ledger = *ledger_,
                                                      .upstream = workers_.front()->upstream,
                                                      .executor = *threads_.front(),
                                                      .timer = *threads_.front(),
                                                      .clock = clock_,
                                                      .random = random_,
                                                      .policy = [this] { return policy_; }});
  for (const auto& worker : workers_) {
    worker->chain = MakeChain({.ledger = *ledger_,
                               .upstream = worker->upstream,
                               .settling = *settler_,
                               .clock = clock_,
                               .random = random_,
                               .secret = secret_});
  }
  std::vector<Job> start;
  start.emplace_back([this] { Spawn(settler_->Run(), [] {}); });
  threads_.front()->Post(std::move(start));
  SweepPools();
}

// Idle upstream connections that are past their time are closed about once a second.
void Runtime::SweepPools() {
  for (const auto& worker : workers_) {
    std::vector<Job> jobs;
    jobs.emplace_back([target = worker.get()] {
      Spawn(
          [](Worker& of) -> Task<void> {
            for (;;) {
              co_await of.thread.SleepUntil(of.thread.clock().Now() + std::chrono::seconds(1));
              of.pool.Sweep();
            }
          }(*target),
          [] {});
    });
    worker->thread.Post(std::move(jobs));
  }
}

void Runtime::Serve(std::size_t index, TcpSocket socket) {
  if (services_.sessions >= limits::kConnectionsMax) {
    metrics_.rejections.Add({{"reason", "connections"}}).Increment();
    return;  // closes the socket
  }
  ++services_.sessions;
  metrics_.connections.Increment();
  auto session = std::make_unique<Session>(*workers_[index], std::move(socket));
  Session* const running = session.get();
  sessions_[index].insert(running);
  Spawn(running->Run(), [this, index, owned = std::move(session)]() mutable {
    sessions_[index].erase(owned.get());
    owned.reset();
    metrics_.connections.Decrement();
    --services_.sessions;
  });
}

void Runtime::WritePorts() {
  if (config_.ports_file.empty()) return;
  const std::string text = "{\"listen\":" + std::to_string(listener_->endpoint().port()) +
                           ",\"admin\":" + std::to_string(admin_->endpoint().port()) +
                           ",\"probes\":" + std::to_string(probes_->endpoint().port()) + "}\n";
  if (auto written = WriteFileAtomically(config_.ports_file, text); !written) {
    throw StartupError(kExitRuntime, "--ports-file: " + written.error());
  }
}

void Runtime::WaitForSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  int received = 0;
  while (sigwait(&signals, &received) != 0) {
  }
}

void Runtime::Drain() {
  Log(LogLevel::kInfo, "draining");
  services_.draining = true;
  probe_api_.ready = false;
  listener_->Close();
  const MonoTime end = clock_.Now() + config_.drain_timeout;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  const timespec pause{0, 20'000'000};
  while (services_.sessions > 0 && clock_.Now() < end) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      std::vector<Job> jobs;
      jobs.emplace_back([this, i] {
        for (Session* session : sessions_[i]) session->Drain();
      });
      threads_[i]->Post(std::move(jobs));
    }
    if (sigtimedwait(&signals, nullptr, &pause) > 0) {
      Log(LogLevel::kWarn, "second signal: exiting now");
      break;
    }
  }
}

void Runtime::Exit() {
  for (const auto& thread : threads_) thread->Stop();
  for (const auto& thread : threads_) thread->Join();
  admin_.reset();
  probes_.reset();
  ledger_.reset();
  Log(LogLevel::kInfo, "stopped");
  access_log_.Close();
  std::_Exit(kExitOk);
}

void BlockSignals() {
  // Every thread inherits the mask; the main thread takes the signals with sigwait.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  // A file size limit then fails the write instead of ending the process: the ledger latches.
  ::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace

int RunProxy(const Config& config) {
  BlockSignals();
  try {
    // Never destroyed: Exit() ends the process while coroutines are still suspended.
    auto* const runtime = new Runtime(config);
    runtime->Start();
    runtime->WaitForSignal();
    runtime->Drain();
    runtime->Exit();
  } catch (const StartupError& error) {
    std::fprintf(stderr, "recourse: %s\n", error.what());
    std::_Exit(error.exit_code);  // threads may be running already
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recourse: cannot start: %s\n", error.what());
    std::_Exit(kExitRuntime);
  }
}

}  // namespace recourse
