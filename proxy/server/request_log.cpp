#include <fmt/chrono.h>
#include <fmt/format.h>

#include <iterator>

#include "proxy/base/json.h"
#include "proxy/server/session.h"

namespace recourse {
namespace {

using Line = fmt::memory_buffer;

void AppendText(Line& line, std::string_view text) {
  line.append(text.data(), text.data() + text.size());
}

// Values from the wire are escaped; names and values of ours are plain.
void AppendQuoted(Line& line, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  AppendText(line, ",\"");
  AppendText(line, name);
  AppendText(line, "\":");
  std::string quoted;
  AppendJsonString(quoted, value);
  AppendText(line, quoted);
}

}  // namespace

void LogRequest(AccessLog& log, const Clock& clock, const RequestRecord& record, double seconds,
                std::string_view policy_version) {
  const auto wall = clock.WallNow();
  const std::int64_t millis = ToUnixMillis(wall);
  Line line;
  fmt::format_to(std::back_inserter(line), "{{\"ts\":\"{:%Y-%m-%dT%H:%M:%S}.{:03}Z\"",
                 fmt::gmtime(static_cast<std::time_t>(millis / 1000)), millis % 1000);
  AppendQuoted(line, "method", record.method);
  fmt::format_to(std::back_inserter(line), ",\"status\":{},\"effect\":\"{}\"", record.status,
                 record.effect);
  if (record.backend != nullptr) AppendQuoted(line, "backend", record.backend->name);
  if (record.tool != nullptr) {
    AppendQuoted(line, "tool", record.tool->name);
    AppendQuoted(line, "path", record.tool->patterns.front());
  }
  AppendQuoted(line, "trace_id", record.trace_id);
  AppendQuoted(line, "event_id", record.event);
  AppendQuoted(line, "error", record.error);
  fmt::format_to(std::back_inserter(line),
                 ",\"attempts\":{},\"replayed\":{},\"client_gone\":{},\"conn_reused\":{},"
                 "\"bytes_in\":{},\"bytes_out\":{},\"dur_ms\":{:.3f},\"policy\":\"{}\"}}\n",
                 record.attempts, record.replayed, record.client_gone, record.reused,
                 record.bytes_in, record.bytes_out, seconds * 1000, policy_version);
  log.Append({line.data(), line.size()});
}

}  // namespace recourse
