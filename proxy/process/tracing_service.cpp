#include "proxy/process/tracing_service.h"

#include "proxy/startup/startup.h"

namespace recourse {
namespace {

void Count(Metrics& metrics, const char* result, std::size_t spans) {
  metrics.spans.Add({{"result", result}}).Increment(static_cast<double>(spans));
}

const char* NameOf(OtlpExporter::Result result) {
  switch (result) {
    case OtlpExporter::Result::kExported:
      return "exported";
    case OtlpExporter::Result::kRefused:
      return "refused";
    case OtlpExporter::Result::kDropped:
      return "dropped";
  }
  return "";
}

}  // namespace

TracingService::TracingService(const OtlpSettings& settings, Metrics& metrics, const Clock& clock,
                               Random& random)
    : settings_(settings),
      metrics_(metrics),
      clock_(clock),
      random_(random),
      tracer_(settings.sample, random,
              [&metrics](std::size_t spans) { Count(metrics, "dropped", spans); }) {}

SpanQueue* TracingService::Open(const OwnListeners& own, const std::string& via) {
  if (settings_.endpoint.empty()) return nullptr;
  auto exporter =
      OtlpExporter::Make({.tracer = tracer_,
                          .clock = clock_,
                          .random = random_,
                          .own = own,
                          .via = via,
                          .settings = settings_,
                          .count = [this](OtlpExporter::Result result, std::size_t spans) {
                            Count(metrics_, NameOf(result), spans);
                          }});
  if (!exporter) throw StartupError(kExitUsage, exporter.error());
  exporter_ = std::move(*exporter);
  return &tracer_;
}

void TracingService::Start() {
  if (exporter_) exporter_->Start();
}

void TracingService::Finish() {
  if (exporter_) exporter_->Finish();
}

}  // namespace recourse
