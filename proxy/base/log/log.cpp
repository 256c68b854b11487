#include "proxy/base/log/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

std::atomic<LogLevel> g_least{LogLevel::kInfo};

constexpr std::array<std::string_view, 4> kLevelNames = {"debug", "info", "warn", "error"};

}  // namespace

void SetLogLevel(LogLevel least) { g_least.store(least); }
LogLevel LeastLogLevel() { return g_least.load(); }

std::string_view NameOf(LogLevel level) { return kLevelNames.at(static_cast<std::size_t>(level)); }

std::optional<LogLevel> LogLevelFromName(std::string_view name) {
  const auto* const at = std::find(kLevelNames.begin(), kLevelNames.end(), name);
  if (at == kLevelNames.end()) return std::nullopt;
  return static_cast<LogLevel>(at - kLevelNames.begin());
}

void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  if (level >= g_least.load()) LogForAudit(level, message, fields);
}

void LogForAudit(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto millis = now.time_since_epoch().count() % 1000;
  std::string line = ObjectText([&](JsonObject& json) {
    json.Text("ts", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                                fmt::gmtime(std::chrono::system_clock::to_time_t(now)), millis));
    json.Text("level", NameOf(level));
    json.Text("msg", message);
    for (const auto& [name, value] : fields) json.Text(name, value);
  });
  line.push_back('\n');
  // One write per line keeps lines of several threads whole (PIPE_BUF or a file).
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace recourse
