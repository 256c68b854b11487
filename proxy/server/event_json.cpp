#include "proxy/server/event_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "proxy/base/json.h"

namespace recourse {
namespace {

void Text(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":");
  AppendJsonString(out, value);
}

void Number(std::string& out, std::string_view name, std::uint64_t value) {
  out.append(",\"").append(name).append("\":").append(std::to_string(value));
}

}  // namespace

std::string Rfc3339Millis(std::int64_t unix_millis) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(unix_millis / 1000)), unix_millis % 1000);
}

void AppendEvent(std::string& out, const Event& event) {
  out.append("{\"event_id\":").append(std::to_string(event.id));
  Number(out, "operation", event.operation);
  Text(out, "idempotency_key", ToHex(event.key));
  Text(out, "tool", event.tool);
  Text(out, "backend", event.backend);
  Text(out, "args_hash", ToHex(event.args_hash));
  Text(out, "status", NameOf(event.status()));
  Text(out, "phase", NameOf(event.phase));
  Number(out, "attempt", event.attempt);
  Text(out, "external_ref", event.external_ref);
  Text(out, "trace_id", event.trace_id);
  Text(out, "flow", event.flow);
  Text(out, "caller", event.caller);
  Text(out, "policy_version", event.policy_version);
  Number(out, "epoch", event.epoch);
  Text(out, "time", Rfc3339Millis(event.wall_ms));
  Text(out, "cause", NameOf(event.cause));
  Text(out, "method", event.method);
  Text(out, "path", event.path);
  Number(out, "http_status", static_cast<std::uint64_t>(event.http_status));
  out.append(event.undo ? ",\"undo\":true" : ",\"undo\":false");
  Text(out, "detail", event.detail);
  out.push_back('}');
}

std::string ToJson(const VerifyReport& report) {
  std::string out = report.ok ? "{\"ok\":true" : "{\"ok\":false";
  Number(out, "rows", report.rows);
  Number(out, "last_id", report.last_id);
  Text(out, "head", report.head);
  Text(out, "problem", report.problem);
  out.push_back('}');
  return out;
}

}  // namespace recourse
