#include "proxy/server/event_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <limits>

#include "filters/ledger/record_codec.h"
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

// Appends the rest of an object that has begun.
void AppendMessage(std::string& out, const Headers& headers, std::string_view body) {
  out.append(",\"headers\":[");
  for (const auto& [name, value] : headers) {
    if (out.back() == ']') out.push_back(',');
    out.push_back('[');
    AppendJsonString(out, name);
    out.push_back(',');
    AppendJsonString(out, IsCredentialField(name) ? "[credential]" : std::string_view(value));
    out.push_back(']');
  }
  out.push_back(']');
  if (IsUtf8(body)) {
    Text(out, "body", body);
  } else {
    Text(out, "body_base64", ToBase64(body));
  }
  out.push_back('}');
}

void AppendRequest(std::string& out, std::string_view name,
                   const std::optional<RenderedRequest>& request) {
  if (!request) return;
  out.append(",\"").append(name).append("\":{\"method\":");
  AppendJsonString(out, request->method);
  Text(out, "target", request->target);
  AppendMessage(out, request->headers, request->body);
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
  Text(out, "flow_name", event.flow_name);
  Number(out, "undoes", event.undoes);
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
  if (event.verdict != ObserveVerdict::kNone) {
    Text(out, "verdict", NameOf(event.verdict));
    Number(out, "related", event.related);
  }
  out.push_back('}');
}

void AppendEventWithAnswer(std::string& out, const Event& event) {
  AppendEvent(out, event);
  out.pop_back();
  if (event.answer_kept) {
    out.append(",\"answer\":{\"status\":").append(std::to_string(event.answer.status));
    AppendMessage(out, event.answer.headers, event.answer.body);
  }
  AppendRequest(out, "request", event.request);
  if (event.request_left_out) out.append(",\"request_left_out\":true");
  AppendRequest(out, "settle_request", event.settle);
  AppendRequest(out, "undo_request", event.undo);
  out.push_back('}');
}

void AppendFlowMoved(std::string& out, const FlowMoved& moved) {
  out.append("{\"event_id\":").append(std::to_string(moved.id));
  Text(out, "kind", "flow");
  Number(out, "flow_number", moved.number);
  Text(out, "flow", moved.flow);
  Text(out, "flow_name", moved.flow_name);
  Text(out, "caller", moved.caller);
  Text(out, "phase", NameOf(moved.phase));
  Text(out, "cause", NameOf(moved.cause));
  Text(out, "reason", moved.reason);
  Number(out, "steps", moved.steps);
  Number(out, "undone", moved.undone);
  Text(out, "policy_version", moved.policy_version);
  Text(out, "time", Rfc3339Millis(moved.wall_ms));
  out.push_back('}');
}

void AppendPage(std::string& out, const EventPage& page, EventForm form) {
  const auto end = [&] { out.push_back(form == EventForm::kArray ? ',' : '\n'); };
  auto flow = page.flows.begin();
  const auto append_flows = [&](std::uint64_t before) {
    for (; flow != page.flows.end() && flow->id < before; ++flow) {
      AppendFlowMoved(out, *flow);
      end();
    }
  };
  for (const Event& event : page.events) {
    append_flows(event.id);
    if (form == EventForm::kLinesWithAnswers) {
      AppendEventWithAnswer(out, event);
    } else {
      AppendEvent(out, event);
    }
    end();
  }
  append_flows(std::numeric_limits<std::uint64_t>::max());
  const bool is_empty = page.events.empty() && page.flows.empty();
  if (form == EventForm::kArray && !is_empty) out.pop_back();
}

std::string NextOf(const EventPage& page) {
  return page.more && page.last_id > 0 ? std::to_string(page.last_id) : "null";
}

std::string ToJson(const VerifyReport& report) {
  std::string out = report.ok ? "{\"ok\":true" : "{\"ok\":false";
  Number(out, "first_id", report.first_id);
  Text(out, "base", report.base);
  Number(out, "rows", report.rows);
  Number(out, "last_id", report.last_id);
  Text(out, "head", report.head);
  Text(out, "problem", report.problem);
  if (!report.ok) {
    Number(out, "bad_row", report.bad_row);
    Text(out, "check", report.check);
  }
  out.push_back('}');
  return out;
}

std::string ToJson(const LedgerStats& stats) {
  std::string out = stats.latched ? "{\"latched\":true" : "{\"latched\":false";
  out.append(stats.is_full ? ",\"full\":true" : ",\"full\":false");
  out.append(stats.restored ? ",\"restored\":true" : ",\"restored\":false");
  if (!stats.not_opened.empty()) Text(out, "not_opened", stats.not_opened);
  Number(out, "first_id", stats.first_id);
  Number(out, "last_id", stats.last_id);
  Number(out, "rows", stats.rows);
  Number(out, "operations", stats.operations);
  Number(out, "running", stats.running);
  Number(out, "uncertain", stats.uncertain);
  Number(out, "tombstones", stats.tombstones);
  Number(out, "locked_carried", stats.locked_carried);
  Number(out, "used_bytes", stats.used_bytes);
  Number(out, "free_bytes", stats.free_bytes);
  Number(out, "reserve_bytes", stats.reserve_bytes);
  Number(out, "size_limit_bytes", stats.map_bytes);
  Text(out, "identity", ToHex(stats.identity));
  Text(out, "head", ToHex(stats.head));
  Number(out, "row_format", kRowFormatVersion);
  Number(out, "oldest_row_s", static_cast<std::uint64_t>(stats.oldest_row_ms / 1000));
  Number(out, "retention_lag_s", static_cast<std::uint64_t>(stats.retention_lag_ms / 1000));
  out.push_back('}');
  return out;
}

}  // namespace recourse
