// Log lines of the process itself (not the access log) on stderr: one JSON object each, and text
// where a person reads them at a terminal.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

namespace recourse {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

using LogField = std::pair<std::string_view, std::string_view>;

// Writes one line. Never pass secrets, header values or bodies. Thread-safe.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
// The same, whatever the least level is: a record of who did what must not end by a setting.
void LogForAudit(LogLevel level, std::string_view message,
                 std::initializer_list<LogField> fields = {});
// What is wrong in a file: a text that names place and severity, and is all that a person needs.
void LogProblem(LogLevel level, std::string_view message, std::string_view problem);
// Lines below it are left out. Thread-safe.
void SetLogLevel(LogLevel least);
LogLevel LeastLogLevel();

std::string_view NameOf(LogLevel level);  // "debug"
std::optional<LogLevel> LogLevelFromName(std::string_view name);

}  // namespace recourse
