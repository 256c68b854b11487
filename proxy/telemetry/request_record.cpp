#include "proxy/telemetry/request_record.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "proxy/base/json/json_line.h"
#include "proxy/base/json/json_object.h"

namespace recourse {
namespace {

// Of a listed tool, as its lines tell it.
std::string NameAndPath(const Policy& policy, const Tool& tool) {
  const std::string path = !tool.patterns.empty() ? tool.patterns.front()
                           : tool.is_named()      ? policy.backends[tool.backend].endpoint
                                                  : std::string();
  return MembersText([&](JsonObject& json) {
    json.Text("tool", tool.name);
    json.Text("path", path.substr(0, 512));
  });
}

}  // namespace

RequestLog::RequestLog(AccessLog& log, const Clock& clock, const Policy& policy)
    : log_(log),
      clock_(clock),
      first_tool_(policy.tools.data()),
      first_backend_(policy.backends.data()),
      tail_(MembersText([&](JsonObject& json) { json.Text("policy", policy.version); }) + "}\n") {
  for (const Tool& tool : policy.tools) tools_.push_back(NameAndPath(policy, tool));
  common_.resize(tools_.size() + 1);
  for (const Backend& backend : policy.backends) {
    backends_.push_back(MembersText([&](JsonObject& json) { json.Text("backend", backend.name); }));
  }
}

// The line's beginning, with 000 for the milliseconds.
std::string_view RequestLog::Second(std::int64_t unix_seconds) {
  if (unix_seconds != second_) {
    second_ = unix_seconds;
    second_text_ = ObjectText([&](JsonObject& json) {
      json.Text("ts", fmt::format("{:%Y-%m-%dT%H:%M:%S}.000Z",
                                  fmt::gmtime(static_cast<std::time_t>(unix_seconds))));
    });
    second_text_.pop_back();
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
  last.text = MembersText([&](JsonObject& json) {
    json.Text("level", is_warning ? "warn" : "info");
    json.Text("method", record.method.view());
    json.Number("status", record.status);
    json.Text("effect", record.effect);
    json.Text("arrival", NameOf(record.ingress_mode));
  });
  if (record.backend != nullptr) {
    last.text += backends_[static_cast<std::size_t>(record.backend - first_backend_)];
  }
  if (is_listed) last.text += tools_[tool];
  return last.text;
}

void RequestLog::Append(const RequestRecord& record, std::chrono::nanoseconds duration) {
  if (!log_.enabled()) return;
  const std::int64_t millis = ToUnixMillis(clock_.WallNow());
  JsonLine line;
  const std::string_view second = Second(millis / 1000);
  line.Raw(second);
  line.ThreeAt(second.size() - 5, static_cast<std::uint64_t>(millis % 1000));
  line.Raw(CommonOf(record));
  line.PlainIfAny<"rpc">(record.rpc);
  line.PlainIfAny<"mcp_tool">(record.called);
  line.PlainIfAny<"trace_id">(record.trace_id);
  line.PlainIfAny<"span_id">(record.span_id.view());
  line.PlainIfAny<"event_id">(record.event);
  line.PlainIfAny<"outcome">(record.outcome);
  line.PlainIfAny<"verdict">(record.verdict);
  line.TextIfAny<"reason">(record.reason);
  line.PlainIfAny<"caller">(record.caller);
  line.PlainIfAny<"original">(record.original);
  line.PlainIfAny<"authority">(record.authority);
  line.PlainIfAny<"sni">(record.server_name);
  line.PlainIfAny<"decision">(record.decision);
  line.PlainIfAny<"upstream">(record.peer);
  line.PlainIfAny<"error">(record.error);
  if (record.attempts == 1 && !record.replayed && !record.client_gone && record.reused) {
    // As most reads: one text.
    line.Members(R"({"attempts":1,"replayed":false,"client_gone":false,"conn_reused":true})");
  } else {
    line.Number<"attempts">(static_cast<std::uint64_t>(record.attempts));
    line.Bool<"replayed">(record.replayed);
    line.Bool<"client_gone">(record.client_gone);
    line.Bool<"conn_reused">(record.reused);
  }
  if (record.host_differs) line.Bool<"host_differs">(true);
  line.Number<"bytes_in">(record.bytes_in);
  line.Number<"bytes_out">(record.bytes_out);
  line.Millis<"dur_ms">(duration);
  if (record.attempts > 0) line.Millis<"upstream_ms">(record.with_backend);
  line.Raw(tail_);
  log_.Append(line.view());
}

}  // namespace recourse
