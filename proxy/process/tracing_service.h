// What a process has for traces: the queue of spans, and who sends them on.
#pragma once

#include <memory>
#include <string>

#include "proxy/telemetry/metrics.h"
#include "proxy/telemetry/otlp_exporter.h"
#include "proxy/telemetry/span_queue.h"

namespace recourse {

class TracingService {
 public:
  // All outlive it.
  TracingService(const OtlpSettings& settings, Metrics& metrics, const Clock& clock,
                 Random& random);

  // The tracer, or null when the settings name no collector. Throws StartupError when it cannot be
  // used. Call once.
  SpanQueue* Open(const OwnListeners& own, const std::string& via);
  void Start();
  // Sends what waits, for a bounded time. Blocking.
  void Finish();

 private:
  const OtlpSettings& settings_;
  Metrics& metrics_;
  const Clock& clock_;
  Random& random_;
  SpanQueue tracer_;
  std::unique_ptr<OtlpExporter> exporter_;
};

}  // namespace recourse
