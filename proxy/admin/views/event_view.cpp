#include "proxy/admin/views/event_view.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "filters/ledger/model/row_id.h"
#include "filters/ledger/rows/row_codec.h"
#include "policy/template/own_terms.h"
#include "policy/undo/undo_class.h"
#include "proxy/admin/views/message_view.h"

namespace recourse {
namespace {

constexpr std::string_view kHidden = "[credential]";

void WriteRequest(JsonObject& json, std::string_view name,
                  const std::optional<RenderedRequest>& request) {
  if (!request) return;
  JsonObject message(json.Value(name));
  message.Text("method", request->method);
  message.Text("target", ShownTarget(request->target, kHidden));
  Headers fields = request->headers;
  DropTerms(fields);
  WriteFields(message, fields, kHidden);
  WriteBody(message, request->body);
}

std::string_view NameOf(ApprovalDecision::Kind kind) {
  switch (kind) {
    case ApprovalDecision::Kind::kApproved:
      return "approved";
    case ApprovalDecision::Kind::kEdited:
      return "edited";
    case ApprovalDecision::Kind::kRejected:
      return "rejected";
  }
  return "";
}

void WriteEvent(JsonObject& json, const Event& event) {
  json.Raw("event_id", RowIdJson(event.id));
  json.Raw("operation", RowIdJson(event.operation));
  json.Text("idempotency_key", ToHex(event.key));
  json.Text("tool", event.tool);
  json.Text("backend", event.backend);
  if (event.undo_class != UndoClass::kRead) json.Text("class", UndoClassName(event.undo_class));
  json.Text("args_hash", ToHex(event.args_hash));
  json.Text("status", NameOf(event.status()));
  json.Text("phase", NameOf(event.phase));
  json.Number("attempt", event.attempt);
  json.Text("external_ref", event.external_ref);
  json.Text("trace_id", event.trace_id);
  json.Text("flow", event.flow);
  json.Text("flow_name", event.flow_name);
  json.Raw("undoes", RowIdJson(event.undoes));
  json.Text("caller", event.caller);
  json.Text("policy_version", event.policy_version);
  json.Number("epoch", event.epoch);
  json.Text("time", Rfc3339Millis(event.wall_ms));
  json.Text("cause", NameOf(event.cause));
  json.Text("method", event.method);
  json.Text("path", event.path);
  json.Number("http_status", event.http_status);
  json.Bool("undo", event.undo.has_value());
  json.Text("detail", event.detail);
  if (event.verdict != ObserveVerdict::kNone) {
    json.Text("verdict", NameOf(event.verdict));
    json.Raw("related", RowIdJson(event.related));
  }
  if (event.approval && !event.approval->decisions.empty()) {
    json.Each("decisions", event.approval->decisions, AppendDecision);
    json.Text("policy_digest", ToHex(event.approval->policy));
  }
}

}  // namespace

std::string Rfc3339Millis(std::int64_t unix_millis) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(static_cast<std::time_t>(unix_millis / 1000)), unix_millis % 1000);
}

void AppendDecision(std::string& out, const ApprovalDecision& decision) {
  JsonObject json(out);
  json.Text("decision", NameOf(decision.kind));
  json.Text("who", decision.who);
  json.Text("reason", decision.reason);
  json.Text("time", Rfc3339Millis(decision.wall_ms));
  json.Text("digest", ToHex(decision.digest));
  json.Bool("counts", !decision.is_late && !decision.is_void);
  json.Bool("late", decision.is_late);
}

void AppendEvent(std::string& out, const Event& event, PodNames* pods) {
  JsonObject json(out);
  WriteEvent(json, event);
  if (pods != nullptr) pods->Write(json, event.id);
}

void AppendEventWithAnswer(std::string& out, const Event& event, PodNames* pods) {
  JsonObject json(out);
  WriteEvent(json, event);
  if (pods != nullptr) pods->Write(json, event.id);
  if (event.answer_kept) WriteResponse(json, "answer", event.answer, kHidden);
  WriteRequest(json, "request", event.request);
  if (event.request_left_out) json.Bool("request_left_out", true);
  WriteRequest(json, "settle_request", event.settle);
  WriteRequest(json, "task_request", event.task);
  WriteRequest(json, "undo_request", event.undo);
}

void AppendFlowMoved(std::string& out, const FlowMoved& moved, PodNames* pods) {
  JsonObject json(out);
  json.Raw("event_id", RowIdJson(moved.id));
  json.Text("kind", "flow");
  json.Raw("flow_number", RowIdJson(moved.number));
  json.Text("flow", moved.flow);
  json.Text("flow_name", moved.flow_name);
  json.Text("caller", moved.caller);
  json.Text("phase", NameOf(moved.phase));
  json.Text("cause", NameOf(moved.cause));
  json.Text("reason", moved.reason);
  json.Number("steps", moved.steps);
  json.Number("undone", moved.undone);
  json.Text("policy_version", moved.policy_version);
  json.Text("time", Rfc3339Millis(moved.wall_ms));
  if (pods != nullptr) pods->Write(json, moved.id);
}

bool ComesBefore(const FlowMoved& moved, const Event* event) {
  if (event == nullptr) return true;
  const bool is_one_stream = UnpackRowId(moved.id).stream == UnpackRowId(event->id).stream;
  return is_one_stream ? moved.id < event->id : moved.wall_ms < event->wall_ms;
}

std::string NextOf(const EventPage& page) {
  return page.more && page.last_id > 0 ? RowIdJson(page.last_id) : "null";
}

std::string ToJson(const VerifyReport& report) {
  return ObjectText([&](JsonObject& json) {
    json.Bool("ok", report.ok);
    json.Raw("first_id", RowIdJson(report.first_id));
    json.Text("base", report.base);
    json.Number("rows", report.rows);
    json.Raw("last_id", RowIdJson(report.last_id));
    json.Text("head", report.head);
    json.Text("problem", report.problem);
    if (!report.ok) {
      json.Raw("bad_row", RowIdJson(report.bad_row));
      json.Text("check", report.check);
    }
  });
}

std::string ToJson(const LedgerStats& stats) {
  return ObjectText([&](JsonObject& json) {
    json.Bool("latched", stats.latched);
    json.Bool("full", stats.is_full);
    json.Bool("index_failing", stats.is_index_failing);
    json.Bool("restored", stats.restored);
    json.TextIfAny("not_opened", stats.not_opened);
    json.Raw("first_id", RowIdJson(stats.first_id));
    json.Raw("last_id", RowIdJson(stats.last_id));
    json.Number("rows", stats.rows);
    json.Number("operations", stats.operations);
    json.Number("running", stats.running);
    json.Number("uncertain", stats.uncertain);
    json.Number("tombstones", stats.tombstones);
    json.Number("locked_carried", stats.locked_carried);
    json.Number("used_bytes", stats.used_bytes);
    json.Number("free_bytes", stats.free_bytes);
    json.Number("reserve_bytes", stats.reserve_bytes);
    json.Number("size_limit_bytes", stats.map_bytes);
    json.Text("identity", ToHex(stats.identity));
    json.Text("head", ToHex(stats.head));
    json.Number("row_format", kRowFormatVersion);
    json.Number("oldest_row_s", stats.oldest_row_ms / 1000);
    json.Number("retention_lag_s", stats.retention_lag_ms / 1000);
  });
}

}  // namespace recourse
