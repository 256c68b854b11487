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
#include "proxy/base/log/log_text.h"
#include "proxy/base/log/terminal_text.h"

namespace recourse {
namespace {

std::atomic<LogLevel> g_least{LogLevel::kInfo};

constexpr std::array<std::string_view, 4> kLevelNames = {"debug", "info", "warn", "error"};

bool IsReadByAPerson() {
  static const bool is_terminal = ::isatty(STDERR_FILENO) == 1;
  return is_terminal;
}

// One write per line keeps lines of several threads whole (PIPE_BUF or a file).
void Write(std::string line) {
  line.push_back('\n');
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

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

void LogProblem(LogLevel level, std::string_view message, std::string_view problem) {
  if (!IsReadByAPerson()) return Log(level, message, {{"problem", problem}});
  if (level >= g_least.load()) Write(TerminalText(problem));
}

void LogForAudit(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  const auto now =
      std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  if (IsReadByAPerson()) return Write(LogText(seconds, level, message, fields));
  const auto millis = now.time_since_epoch().count() % 1000;
  Write(ObjectText([&](JsonObject& json) {
    json.Text("ts", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), millis));
    json.Text("level", NameOf(level));
    json.Text("msg", message);
    for (const auto& [name, value] : fields) json.Text(name, value);
  }));
}

}  // namespace recourse
