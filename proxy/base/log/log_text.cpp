#include "proxy/base/log/log_text.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "proxy/base/log/terminal_text.h"

namespace recourse {

std::string LogText(std::time_t now, LogLevel level, std::string_view message,
                    std::initializer_list<LogField> fields) {
  std::string out =
      fmt::format("{:%H:%M:%S}Z {}: {}", fmt::gmtime(now),
                  level == LogLevel::kWarn ? "warning" : NameOf(level), TerminalText(message));
  std::string_view before = " (";
  for (const auto& [name, value] : fields) {
    out += fmt::format("{}{}: {}", before, name, TerminalText(value));
    before = "; ";
  }
  return fields.size() == 0 ? out : out + ")";
}

}  // namespace recourse
