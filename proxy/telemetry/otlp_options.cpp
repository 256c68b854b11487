#include "proxy/telemetry/otlp_options.h"

namespace recourse {

void AddTraceOptions(CLI::App& run, OtlpSettings& otlp) {
  run.add_option("--otlp-endpoint", otlp.endpoint,
                 "URL of a collector for traces, OTLP over HTTP, e.g. http://localhost:4318; "
                 "without it OTEL_EXPORTER_OTLP_ENDPOINT counts, and without both there are none")
      ->envname("RECOURSE_OTLP_ENDPOINT");
  run.add_option("--otlp-headers-file", otlp.headers_file,
                 "File with fields to send along, one `Name: value` per line, such as a token")
      ->envname("RECOURSE_OTLP_HEADERS_FILE");
  run.add_option("--otlp-ca-file", otlp.ca_file,
                 "CA of the collector's certificate, PEM; without it the system's")
      ->envname("RECOURSE_OTLP_CA_FILE");
  run.add_option("--otlp-sample", otlp.sample,
                 "Part of the traces that begin here, 0 to 1; calls that carry a traceparent are "
                 "traced when it says so")
      ->envname("RECOURSE_OTLP_SAMPLE")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
}

}  // namespace recourse
