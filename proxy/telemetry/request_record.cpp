#include "proxy/telemetry/request_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "proxy/base/json/json.h"

namespace recourse {
namespace {

// Appends into a fixed buffer; what does not fit is cut, which only a bug could cause.
class Line {
 public:
  [[gnu::always_inline]] void Text(std::string_view text) {
    if (text.size() > sizeof buffer_ - size_) [[unlikely]]
      return TextThatIsCut(text);
    // Apart from that, so that the size of a literal is known here, and nothing is called.
    std::memcpy(buffer_ + size_, text.data(), text.size());
    size_ += text.size();
  }
  template <std::size_t kBytesMax>
  void Text(const ShortText<kBytesMax>& text) {
    if (kBytesMax > sizeof buffer_ - size_) [[unlikely]]
      return TextThatIsCut(text.view());
    // Whatever its size is, as that of the copy is known here.
    std::memcpy(buffer_ + size_, text.data(), kBytesMax);
    size_ += text.size();
  }
  void Number(std::uint64_t value) {
    const auto end = std::to_chars(buffer_ + size_, buffer_ + sizeof buffer_, value);
    if (end.ec == std::errc()) size_ = static_cast<std::size_t>(end.ptr - buffer_);
  }
  void Three(std::uint64_t value) {
    const char digits[3] = {static_cast<char>('0' + value / 100 % 10),
                            static_cast<char>('0' + value / 10 % 10),
                            static_cast<char>('0' + value % 10)};
    Text({digits, 3});
  }
  void Millis(std::chrono::nanoseconds time) {
    const auto micros = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(time).count());
    Number(micros / 1000);
    Text(".");
    Three(micros % 1000);
  }
  void Flag(bool value) {
    if (value) {
      Text("true");
    } else {
      Text("false");
    }
  }
  std::string_view view() const { return {buffer_, size_}; }

 private:
  void TextThatIsCut(std::string_view text) { Text(text.substr(0, sizeof buffer_ - size_)); }

  char buffer_[4096];
  std::size_t size_ = 0;
};

std::string Quoted(std::string_view name, std::string_view value) {
  std::string text = ",\"";
  text.append(name).append("\":");
  AppendJsonString(text, value);
  return text;
}

}  // namespace

RequestLog::RequestLog(AccessLog& log, const Clock& clock, const Policy& policy)
    : log_(log),
      clock_(clock),
      first_tool_(policy.tools.data()),
      first_backend_(policy.backends.data()),
      tail_(Quoted("policy", policy.version) + "}\n") {
  for (const Tool& tool : policy.tools) {
    const std::string path = !tool.patterns.empty() ? tool.patterns.front()
                             : tool.is_named()      ? policy.backends[tool.backend].endpoint
                                                    : std::string();
    tools_.push_back(Quoted("tool", tool.name) + Quoted("path", path.substr(0, 512)));
  }
  common_.resize(tools_.size() + 1);
  for (const Backend& backend : policy.backends) {
    backends_.push_back(Quoted("backend", backend.name));
  }
}

std::string_view RequestLog::Second(std::int64_t unix_seconds) {
  if (unix_seconds != second_) {
    second_ = unix_seconds;
    second_text_ = fmt::format("{{\"ts\":\"{:%Y-%m-%dT%H:%M:%S}.",
                               fmt::gmtime(static_cast<std::time_t>(unix_seconds)));
  }
  return second_text_;
}

std::string_view RequestLog::CommonOf(const RequestRecord& record) {
  const bool is_listed = record.tool != nullptr;
  const std::size_t tool =
      is_listed ? static_cast<std::size_t>(record.tool - first_tool_) : tools_.size();
  const bool is_warning = !record.error.empty() || record.status >= 500;
  Common& last = common_[tool];
  if (last.status == record.status && last.backend == record.backend &&
      last.is_warning == is_warning && last.ingress_mode == record.ingress_mode &&
      last.effect == record.effect && last.method.view() == record.method.view()) {
    return last.text;
  }
  last = {.text = {},
          .method = record.method,
          .status = record.status,
          .is_warning = is_warning,
          .effect = record.effect,
          .ingress_mode = record.ingress_mode,
          .backend = record.backend};
  // A method is a token, whose characters need no escape in JSON.
  last.text =
      fmt::format(R"(Z","level":"{}","method":"{}","status":{},"effect":"{}","arrival":"{}")",
                  is_warning ? "warn" : "info", record.method.view(), record.status, record.effect,
                  NameOf(record.ingress_mode));
  if (record.backend != nullptr) {
    last.text += backends_[static_cast<std::size_t>(record.backend - first_backend_)];
  }
  if (is_listed) last.text += tools_[tool];
  return last.text;
}

void RequestLog::Append(const RequestRecord& record, std::chrono::nanoseconds duration) {
  if (!log_.enabled()) return;
  const std::int64_t millis = ToUnixMillis(clock_.WallNow());
  Line line;
  line.Text(Second(millis / 1000));
  line.Three(static_cast<std::uint64_t>(millis % 1000));
  line.Text(CommonOf(record));
  const auto optional = [&line](std::string_view name, const auto& value) {
    if (value.empty()) return;
    line.Text(name);
    line.Text(value);
    line.Text("\"");
  };
  optional(",\"rpc\":\"", record.rpc);
  optional(",\"mcp_tool\":\"", record.mcp_tool);
  optional(",\"trace_id\":\"", record.trace_id);
  optional(",\"span_id\":\"", record.span_id.view());
  optional(",\"event_id\":\"", record.event);
  optional(",\"outcome\":\"", record.outcome);
  optional(",\"verdict\":\"", record.verdict);
  if (!record.reason.empty()) [[unlikely]] {
    std::string quoted;
    AppendJsonString(quoted, record.reason);
    line.Text(",\"reason\":");
    line.Text(quoted);
  }
  optional(",\"caller\":\"", record.caller);
  optional(",\"original\":\"", record.original);
  optional(",\"authority\":\"", record.authority);
  optional(",\"sni\":\"", record.server_name);
  optional(",\"decision\":\"", record.decision);
  optional(",\"upstream\":\"", record.peer);
  optional(",\"error\":\"", record.error);
  if (record.attempts == 1 && !record.replayed && !record.client_gone && record.reused) {
    // As most reads: one text.
    line.Text(R"(,"attempts":1,"replayed":false,"client_gone":false,"conn_reused":true)");
  } else {
    line.Text(",\"attempts\":");
    line.Number(static_cast<std::uint64_t>(record.attempts));
    line.Text(",\"replayed\":");
    line.Flag(record.replayed);
    line.Text(",\"client_gone\":");
    line.Flag(record.client_gone);
    line.Text(",\"conn_reused\":");
    line.Flag(record.reused);
  }
  if (record.host_differs) line.Text(",\"host_differs\":true");
  line.Text(",\"bytes_in\":");
  line.Number(record.bytes_in);
  line.Text(",\"bytes_out\":");
  line.Number(record.bytes_out);
  line.Text(",\"dur_ms\":");
  line.Millis(duration);
  if (record.attempts > 0) {
    line.Text(",\"upstream_ms\":");
    line.Millis(record.with_backend);
  }
  line.Text(tail_);
  log_.Append(line.view());
}

}  // namespace recourse
