// Log lines of the process itself (not the access log): one JSON object per line on stderr.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

namespace recourse {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

using LogField = std::pair<std::string_view, std::string_view>;

// Writes one line. Never pass secrets, header values or bodies. Thread-safe.
void Log(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
void SetLogLevel(LogLevel least);

}  // namespace recourse
