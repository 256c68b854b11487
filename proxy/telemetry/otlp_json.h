// The OTLP/HTTP JSON encoding of spans, by the semantic conventions of OpenTelemetry for HTTP
// (stable since 1.23). Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proxy/base/http/http_message.h"
#include "proxy/telemetry/span.h"

namespace recourse {

// service.name and whatever else says who sends. In order; the first of a name wins.
using ResourceAttributes = std::vector<std::pair<std::string, std::string>>;

// "team=shop,deployment.environment=prod" as OTEL_RESOURCE_ATTRIBUTES has it: values may be
// percent-encoded. What is no pair is left out.
ResourceAttributes ParseResourceAttributes(std::string_view text);

// The body of one export. `wall` at the moment `mono` of the spans' clock.
std::string OtlpBody(std::span<const Span> spans, const ResourceAttributes& resource, WallTime wall,
                     MonoTime mono);

// What an answer of a collector says of the spans that it was sent.
struct ExportVerdict {
  enum class Kind { kTaken, kAgain, kRefused };
  Kind kind = Kind::kTaken;
  std::size_t rejected = 0;  // kTaken: of them
};
ExportVerdict JudgeExport(int status, std::string_view body);

// Fields of `text`, one `Name: value` per line; lines that are empty or begin with '#' are left
// out. Fails with a sentence that tells the line, and never its value.
std::expected<Headers, std::string> ParseHeaderLines(std::string_view text);

// The target of exports: "/v1/traces" below the path of the endpoint.
std::string TracesTarget(std::string_view base_path);

}  // namespace recourse
