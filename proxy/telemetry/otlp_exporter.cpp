#include "proxy/telemetry/otlp_exporter.h"

#include <algorithm>
#include <utility>

#include "policy/model/url.h"
#include "proxy/base/backoff.h"
#include "proxy/base/log/log.h"
#include "proxy/base/post_job.h"
#include "proxy/config/files.h"
#include "proxy/net/tls/tls_client.h"

namespace recourse {
namespace {

constexpr Millis kTimeout{10'000};  // for a collector's answer

std::expected<Headers, std::string> ReadHeaders(const std::string& file) {
  if (file.empty()) return Headers();
  const auto text = ReadInputFile(file, limits::kSecretFileBytesMax);
  if (!text) return std::unexpected(text.error());
  auto fields = ParseHeaderLines(*text);
  if (!fields) return std::unexpected(file + ": " + fields.error());
  return std::move(*fields);
}

std::expected<Backend, std::string> CollectorOf(const OtlpSettings& settings) {
  auto collector = BackendFromUrl(settings.endpoint);
  if (!collector) {
    return std::unexpected("--otlp-endpoint: '" + settings.endpoint +
                           "' is not a URL such as http://collector:4318");
  }
  collector->name = "collector";
  collector->timeout = kTimeout;
  collector->tls_ca_file = settings.ca_file;
  // A collector beside us is the usual one, whatever its name.
  collector->addresses.classes.push_back(AddressClass::kLoopback);
  collector->addresses.classes.push_back(AddressClass::kLinkLocal);
  if (collector->scheme == "https") {
    auto tls = TlsClient::Make(*collector);
    if (!tls) return std::unexpected("--otlp-endpoint: " + tls.error());
    collector->tls = std::move(*tls);
  }
  return std::move(*collector);
}

ResourceAttributes ResourceOf(const OtlpSettings& settings, const std::string& via) {
  ResourceAttributes resource;
  if (!settings.service_name.empty()) resource.emplace_back("service.name", settings.service_name);
  for (auto& pair : ParseResourceAttributes(settings.resource_attributes)) {
    resource.push_back(std::move(pair));
  }
  resource.emplace_back("service.name", "recourse");
  resource.emplace_back("service.version", RECOURSE_VERSION);
  resource.emplace_back("service.instance.id", via.substr(via.find(' ') + 1));
  return resource;
}

}  // namespace

std::expected<std::unique_ptr<OtlpExporter>, std::string> OtlpExporter::Make(Parts parts) {
  auto collector = CollectorOf(parts.settings);
  if (!collector) return std::unexpected(collector.error());
  if (const auto fields = ReadHeaders(parts.settings.headers_file); !fields) {
    return std::unexpected("--otlp-headers-file: " + fields.error());
  }
  return std::unique_ptr<OtlpExporter>(new OtlpExporter(std::move(parts), std::move(*collector)));
}

OtlpExporter::OtlpExporter(Parts parts, Backend collector)
    : parts_(std::move(parts)),
      collector_(std::move(collector)),
      resource_(ResourceOf(parts_.settings, parts_.via)),
      thread_(parts_.clock),
      streams_(thread_, parts_.own),
      upstream_(thread_, streams_, parts_.via) {}

void OtlpExporter::Start() {
  PostJob(thread_, [this] { Spawn(Run(), [this] { finished_.set_value(); }); });
  thread_.Start("recourse-traces");
}

void OtlpExporter::Finish() {
  finishing_ = true;
  finished_.get_future().wait_for(kFlush);
  thread_.Stop();
  thread_.Join();
}

Task<void> OtlpExporter::Run() {
  MonoTime next = parts_.clock.Now() + kInterval;
  for (bool is_last = false; !is_last;) {
    co_await thread_.SleepUntil(parts_.clock.Now() + kTick);
    is_last = finishing_;
    const bool is_due =
        is_last || parts_.clock.Now() >= next || parts_.tracer.waiting() >= kSpansPerExport;
    if (!is_due) continue;
    next = parts_.clock.Now() + kInterval;
    const std::vector<Span> spans = parts_.tracer.Take();
    for (std::size_t at = 0; at < spans.size(); at += kSpansPerExport) {
      const std::size_t size = std::min(kSpansPerExport, spans.size() - at);
      co_await Deliver(std::span(spans).subspan(at, size));
    }
  }
}

Task<void> OtlpExporter::Deliver(std::span<const Span> spans) {
  const std::string body = OtlpBody(spans, resource_, parts_.clock.WallNow(), parts_.clock.Now());
  for (int tries = 1;; ++tries) {
    const auto verdict = co_await Post(body);
    if (verdict && verdict->kind == ExportVerdict::Kind::kTaken) {
      const std::size_t rejected = std::min(verdict->rejected, spans.size());
      parts_.count(Result::kExported, spans.size() - rejected);
      if (rejected > 0) parts_.count(Result::kRefused, rejected);
      Tell({});
      co_return;
    }
    if (verdict && verdict->kind == ExportVerdict::Kind::kRefused) {
      parts_.count(Result::kRefused, spans.size());
      Tell("it refused them; the answer's status says why");
      co_return;
    }
    Tell(verdict ? "it is overloaded or away" : std::string(verdict.error().detail()));
    if (tries == kTriesMax || finishing_) {
      parts_.count(Result::kDropped, spans.size());
      co_return;
    }
    co_await Rest(tries);
  }
}

// Less when the process ends.
Task<void> OtlpExporter::Rest(int failures) {
  const MonoTime end =
      parts_.clock.Now() + Backoff({kBackoffFirst}, failures, Jitter(parts_.random));
  while (parts_.clock.Now() < end && !finishing_) {
    co_await thread_.SleepUntil(std::min(end, parts_.clock.Now() + kTick));
  }
}

Task<Result<ExportVerdict>> OtlpExporter::Post(const std::string& body) {
  // Read each time, so that a rotated token is used.
  auto fields = ReadHeaders(parts_.settings.headers_file);
  if (!fields) {
    co_return std::unexpected(
        Error(ErrorCode::kInternal, "the file of --otlp-headers-file cannot be used any more"));
  }
  if (collector_.tls != nullptr) (void)collector_.tls->Refresh(FileState::Look::kSettled);
  HttpRequest request{"POST", TracesTarget(collector_.base_path), std::move(*fields), body};
  SetHeader(request.headers, "Content-Type", "application/json");
  SetHeader(request.headers, "Accept-Encoding", "identity");
  const auto connection = upstream_.Open(collector_);
  const auto connected = co_await connection->Connected();
  if (!connected) co_return std::unexpected(connected.error());
  const auto answer =
      co_await connection->Exchange(request, parts_.clock.Now() + kTimeout, kAnswerBytesMax);
  if (!answer) co_return std::unexpected(answer.error());
  co_return JudgeExport(answer->response.status, answer->response.body);
}

// One line when it begins to fail, and one when it is well again.
void OtlpExporter::Tell(const std::string& trouble) {
  if (is_failing_ == !trouble.empty()) return;
  is_failing_ = !trouble.empty();
  if (is_failing_) {
    Log(LogLevel::kWarn, "the collector does not take the traces; calls are not affected",
        {{"endpoint", parts_.settings.endpoint}, {"reason", trouble}});
  } else {
    Log(LogLevel::kInfo, "the collector takes traces again");
  }
}

}  // namespace recourse
