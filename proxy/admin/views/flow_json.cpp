#include "proxy/admin/views/flow_json.h"

#include <algorithm>

#include "filters/ledger/model/row_id.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/message_view.h"

namespace recourse {
namespace {

constexpr std::string_view kNotShown = "(hidden)";

void WriteUndo(JsonObject& json, std::string_view name, const std::string& base_url,
               const std::optional<HttpRequest>& request) {
  if (!request) return;
  JsonObject message(json.Value(name));
  message.Text("method", request->method);
  message.Text("url", base_url + ShownTarget(request->target, kNotShown));
  WriteFields(message, request->headers, kNotShown);
  WriteBody(message, request->body);
}

void WriteSaid(JsonObject& json, std::string_view name, const std::optional<HttpResponse>& said) {
  if (said) WriteResponse(json, name, *said, kNotShown);
}

void AppendDrift(std::string& out, const PlaceDrift& drift) {
  JsonObject json(out);
  json.Text("place", drift.place);
  if (drift.before) json.Text("before", *drift.before);
  if (drift.ours) json.Text("ours", *drift.ours);
  if (drift.now) json.Text("now", *drift.now);
}

void AppendStep(std::string& out, const StepView& view) {
  const FlowStep& step = view.step;
  JsonObject json(out);
  json.Raw("step", RowIdJson(step.operation));
  json.Text("tool", view.event ? view.event->tool : std::string());
  json.Text("method", view.event ? view.event->method : std::string());
  json.Text("path", view.event ? view.event->path : std::string());
  json.Text("backend", view.event ? view.event->backend : std::string());
  json.TextIfAny("class", view.undo_class);
  json.Text("phase", NameOf(step.phase));
  json.Text("external_ref", view.event ? view.event->external_ref : std::string());
  json.Bool("not_needed", step.end == StepEnd::kNotNeeded);
  json.Raw("undo_operation", RowIdJson(step.undo));
  json.Text("undo_phase", step.undo == 0 ? std::string_view() : NameOf(step.undo_phase));
  json.Number("undo_attempts", step.undo_attempts);
  json.Text("undo", NameOf(view.does));
  json.Text("why", view.why);
  WriteSaid(json, "said", view.said);
  WriteSaid(json, "undo_said", view.undo_said);
  if (!view.drift.empty()) json.Each("changed_since", view.drift, AppendDrift);
  WriteUndo(json, "undo_sent", view.base_url, view.undo_sent);
  WriteUndo(json, "undo_request", view.base_url, view.request);
}

void AppendPlanned(std::string& out, const StepView& view) {
  JsonObject json(out);
  json.Raw("step", RowIdJson(view.step.operation));
  json.Text("tool", view.event ? view.event->tool : std::string());
  json.Text("undo", NameOf(view.does));
  json.Text("why", view.why);
  json.Bool("reached", view.is_reached);
  WriteUndo(json, "undo_request", view.base_url, view.request);
}

void WriteFlow(JsonObject& json, const FlowState& state) {
  const auto undone =
      std::count_if(state.steps.begin(), state.steps.end(),
                    [](const FlowStep& step) { return step.phase == Phase::kCompensated; });
  json.Raw("number", RowIdJson(state.number));
  json.Text("flow", state.id);
  json.Text("name", state.name);
  json.Text("caller", state.caller);
  json.Text("phase", NameOf(state.phase));
  json.Text("cause", NameOf(state.cause));
  json.Bool("stopped", IsStopped(state));
  json.Text("reason", state.reason);
  json.Text("began", Rfc3339Millis(state.began_ms));
  json.Text("changed", Rfc3339Millis(state.changed_ms));
  json.Bool("has_deadline", state.has_deadline);
  json.Text("policy_version", state.policy_version);
  json.Number("step_count", state.steps.size());
  json.Number("undone_count", undone);
}

}  // namespace

// A flow that only took steps has no row of its own.
std::uint64_t LastRowOf(const FlowState& state) {
  return state.row != 0 ? state.row : state.number;
}

void AppendFlowLine(std::string& out, const FlowState& state, PodNames* pods) {
  JsonObject json(out);
  WriteFlow(json, state);
  if (pods != nullptr) pods->Write(json, LastRowOf(state));
}

std::string FlowJson(const FlowView& view, PodNames& pods) {
  return ObjectText([&](JsonObject& json) {
    WriteFlow(json, view.state);
    pods.Write(json, LastRowOf(view.state));
    json.Each("steps", view.steps, AppendStep);
  });
}

std::string PreviewJson(const FlowView& view) {
  return ObjectText([&](JsonObject& json) {
    WriteFlow(json, view.state);
    json.Text("refused", view.refused);
    json.Each("plan", view.order,
              [&](std::string& to, std::size_t index) { AppendPlanned(to, view.steps[index]); });
  });
}

}  // namespace recourse
