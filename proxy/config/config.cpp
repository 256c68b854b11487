#include "proxy/config/config.h"

#include <charconv>
#include <cstdlib>

#include "proxy/base/crypto/hash.h"
#include "proxy/config/agent_env.h"

namespace recourse {

namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

}  // namespace

void TakeOtelVariables(OtlpSettings& settings) {
  const bool is_off =
      Variable("OTEL_SDK_DISABLED") == "true" || Variable("OTEL_TRACES_EXPORTER") == "none";
  const bool is_grpc = Variable("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc";
  const auto take = [](std::string& value, const char* name) {
    if (value.empty()) value = Variable(name);
  };
  if (!is_off && !is_grpc) take(settings.endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT");
  take(settings.ca_file, "OTEL_EXPORTER_OTLP_CERTIFICATE");
  take(settings.service_name, "OTEL_SERVICE_NAME");
  take(settings.resource_attributes, "OTEL_RESOURCE_ATTRIBUTES");
}

std::vector<std::string> NamedCaFiles() {
  std::vector<std::string> files;
  for (const char* const name : kTrustVariables) {
    if (std::string file = Variable(name); !file.empty()) files.push_back(std::move(file));
  }
  return files;
}

std::string NotifySocket() { return Variable("NOTIFY_SOCKET"); }

std::optional<ExpectedLedger> ParseExpectedLedger(std::string_view text) {
  const auto colon = text.find(':');
  const std::string_view rows = text.substr(0, colon);
  ExpectedLedger expected;
  const auto [end, error] = std::from_chars(rows.data(), rows.data() + rows.size(), expected.rows);
  if (error != std::errc() || end != rows.data() + rows.size()) return std::nullopt;
  if (colon == std::string_view::npos) return expected;
  expected.head = DigestFromHex(text.substr(colon + 1));
  if (!expected.head || expected.rows == 0) return std::nullopt;
  return expected;
}

}  // namespace recourse
