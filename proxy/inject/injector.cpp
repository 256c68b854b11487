#include "proxy/inject/injector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>

#include "proxy/base/json/json_object.h"
#include "proxy/base/limits.h"
#include "proxy/base/log/log.h"
#include "proxy/config/files.h"
#include "proxy/inject/admission_review.h"
#include "proxy/inject/inject_metrics.h"
#include "proxy/inject/object_finder.h"
#include "proxy/inject/template_file.h"
#include "proxy/net/beast/http_server.h"
#include "proxy/reload/policy_watch.h"
#include "proxy/startup/ledger_secrets.h"
#include "proxy/startup/listening.h"
#include "proxy/startup/startup.h"

namespace recourse {
namespace {

// An API server takes objects of 3 MiB at most; the review has one of them, and little else.
constexpr std::uint64_t kReviewBytesMax = 3 * 1024 * 1024 + 256 * 1024;
// Reviews that are read at once, before the first of them is answered: 104 MiB in all, for
// which the chart's limit of memory leaves room. An API server keeps a few connections.
constexpr std::size_t kConnectionsMax = 32;
constexpr int kOwnPagesFrom = 128 * 1024;
// How often the CA that all replicas share is looked at, and after a failure.
constexpr Millis kCaPause{60'000}, kCaRetry{5'000};
// After a notice the files are looked at so often, as they settle.
constexpr int kLooksAfterNotice = 3;

HttpResponse Text(int status, std::string body) {
  return {status, "", {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(body)};
}

class Injector {
 public:
  explicit Injector(const InjectorConfig& config)
      : config_(config),
        metrics_(clock_.WallNow()),
        template_(config.pod_template, metrics_),
        api_(config.api),
        keeper_(api_, config.own, {config.tls_cert, config.tls_key}, clock_, random_),
        finder_(api_, clock_),
        tls_(FirstCertificate(), "--tls-cert"),
        watch_({config.pod_template, config.tls_cert, config.tls_key}, clock_) {
    CertificateInForce(*tls_.First());
  }

  void Start() {
    ListenOrThrow("--probes", config_.probes, [this](const Tcp::endpoint& endpoint) {
      probes_ = std::make_unique<HttpServer>(
          endpoint, [this](const HttpRequest& request, const HttpPeer&) { return Probe(request); },
          HttpServerSettings{.thread = "recourse-probes"});
    });
    ListenOrThrow("--listen", config_.listen, [this](const Tcp::endpoint& endpoint) {
      reviews_ = std::make_unique<HttpServer>(
          endpoint, [this](const HttpRequest& request, const HttpPeer&) { return Serve(request); },
          HttpServerSettings{.thread = "recourse-review",
                             .tls = tls_.First(),
                             .body_bytes_max = kReviewBytesMax,
                             .connections_max = kConnectionsMax});
    });
    is_ready_ = true;
    const std::string listen = std::to_string(reviews_->endpoint().port());
    const std::string probes = std::to_string(probes_->endpoint().port());
    if (!config_.ports_file.empty()) {
      const auto written =
          WriteFileAtomically(config_.ports_file, ObjectText([&](JsonObject& json) {
                                                    json.Raw("listen", listen);
                                                    json.Raw("probes", probes);
                                                  }) + "\n");
      if (!written) throw StartupError(kExitRuntime, "--ports-file: " + written.error());
    }
    Log(LogLevel::kInfo, "ready", {{"listen", listen}, {"probes", probes}});
  }

  // Until a signal; takes changed files meanwhile.
  void WaitForEnd() {
    int looks = 1;  // the files may have changed while everything was started
    for (;;) {
      switch (watch_.Wait(looks > 0 ? limits::kPolicySettle : limits::kPolicyPoll)) {
        case PolicyWatch::Event::kStop:
          return;
        case PolicyWatch::Event::kReload:
          Look(FileState::Look::kAtOnce);
          break;
        case PolicyWatch::Event::kNotice:
          looks = kLooksAfterNotice;
          Look(FileState::Look::kSettled);
          break;
        case PolicyWatch::Event::kTime:
          looks = looks > 0 ? looks - 1 : 0;
          Look(FileState::Look::kSettled);
          break;
      }
    }
  }

  // The Service leads API servers here until they have noticed that this one ends.
  void Drain() {
    Log(LogLevel::kInfo, "draining");
    is_ready_ = false;
    reviews_->EndConnections();
    const MonoTime end = clock_.Now() + config_.drain_timeout;
    while (clock_.Now() < end) {
      const auto left = std::chrono::ceil<Millis>(end - clock_.Now());
      if (watch_.Wait(left) == PolicyWatch::Event::kStop) break;
    }
    reviews_.reset();
    probes_.reset();
    Log(LogLevel::kInfo, "stopped");
  }

 private:
  bool IsOwn() const { return !config_.own.secret.empty(); }

  TlsServerFiles FirstCertificate() {
    if (IsOwn()) LookAtCa();
    return {config_.tls_cert, config_.tls_key, {}};
  }

  // Blocks while API servers are silent.
  void LookAtCa() {
    auto looked = keeper_.Look();
    next_ca_look_ = clock_.Now() + (looked ? kCaPause : kCaRetry);
    const std::string problem = looked ? std::string() : std::move(looked.error());
    if (!problem.empty()) metrics_.CountApiFailure();
    if (problem != ca_problem_ && !problem.empty()) {
      Log(LogLevel::kError, "the webhook's CA is as it was", {{"reason", problem}});
    }
    ca_problem_ = problem;
  }

  // One that is made here is signed anew as long as its CA lives.
  void CertificateInForce(const TlsServer& server) {
    metrics_.CertificateInForce(IsOwn() ? keeper_.end() : server.CertificateEnd());
  }

  void Look(FileState::Look look) {
    if (IsOwn() && (look == FileState::Look::kAtOnce || clock_.Now() >= next_ca_look_)) LookAtCa();
    template_.Look(look);
    if (const auto fresh = tls_.Refresh(look)) {
      reviews_->UseTls(fresh);
      CertificateInForce(*fresh);
    }
  }

  // On the server's thread.
  MissingObjects FindMissing(std::string_view space, const std::vector<NeededObject>& needed) {
    MissingObjects missing = finder_.Find(space, needed);
    if (!missing.unknown.empty()) metrics_.CountApiFailure();
    return missing;
  }

  // On the server's thread.
  HttpResponse Serve(const HttpRequest& request) {
    const MonoTime began = clock_.Now();
    const auto find = [this](std::string_view space, const std::vector<NeededObject>& needed) {
      return FindMissing(space, needed);
    };
    ReviewAnswer answer = AnswerReview(request, *template_.Current(),
                                       config_.api.url.empty() ? recourse::FindMissing() : find);
    metrics_.Count(answer.result, answer.warnings.size(), clock_.Now() - began);
    const std::string warnings = fmt::format("{}", fmt::join(answer.warnings, "; "));
    const bool is_refused =
        answer.result == ReviewResult::kBad || answer.result == ReviewResult::kRefused;
    const LogLevel level = is_refused || !warnings.empty()            ? LogLevel::kWarn
                           : answer.result == ReviewResult::kInjected ? LogLevel::kInfo
                                                                      : LogLevel::kDebug;
    Log(level, "review",
        {{"result", NameOf(answer.result)},
         {"pod", answer.pod},
         {"dry_run", answer.is_dry_run ? "true" : "false"},
         {"reason", answer.reason},
         {"warnings", warnings}});
    return std::move(answer.response);
  }

  HttpResponse Probe(const HttpRequest& request) {
    if (request.method != "GET" && request.method != "HEAD") return Text(405, "use GET\n");
    if (request.target == "/healthz") return Text(200, "live\n");
    if (request.target == "/readyz") {
      return is_ready_ ? Text(200, "ready\n") : Text(503, "starting or draining\n");
    }
    if (request.target == "/metrics") {
      return {200,
              "",
              {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
              metrics_.Scrape()};
    }
    return Text(404, "this port has /healthz, /readyz and /metrics\n");
  }

  const InjectorConfig& config_;
  const SystemClock clock_;
  SystemRandom random_;
  InjectMetrics metrics_;
  TemplateFile template_;
  const KubeApi api_;
  CertificateKeeper keeper_;
  MonoTime next_ca_look_{};
  std::string ca_problem_;  // that the log has told last
  ObjectFinder finder_;     // of the server's thread
  ServerTls tls_;
  PolicyWatch watch_;
  std::atomic<bool> is_ready_ = false;
  std::unique_ptr<HttpServer> probes_, reviews_;  // threads that use all of the above
};

}  // namespace

int RunInjector(const InjectorConfig& config) {
  BlockSignals();
  KeepMemoryPrivate();
  // Large bodies go back to the system with their review, and leave no holes behind.
  mallopt(M_MMAP_THRESHOLD, kOwnPagesFrom);
  try {
    Injector injector(config);
    injector.Start();
    injector.WaitForEnd();
    injector.Drain();
    return kExitOk;
  } catch (const StartupError& error) {
    std::fprintf(stderr, "recourse: %s\n", error.what());
    return error.exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "recourse: cannot start: %s\n", error.what());
    return kExitRuntime;
  }
}

}  // namespace recourse
