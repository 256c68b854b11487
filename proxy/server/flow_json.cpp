#include "proxy/server/flow_json.h"

#include <algorithm>

#include "proxy/base/hash.h"
#include "proxy/base/json.h"
#include "proxy/server/event_json.h"

namespace recourse {
namespace {

void Text(std::string& out, std::string_view name, std::string_view value) {
  out.append(",\"").append(name).append("\":");
  AppendJsonString(out, value);
}

void Number(std::string& out, std::string_view name, std::uint64_t value) {
  out.append(",\"").append(name).append("\":").append(std::to_string(value));
}

void Bool(std::string& out, std::string_view name, bool value) {
  out.append(",\"").append(name).append(value ? "\":true" : "\":false");
}

void AppendUndoRequest(std::string& out, const StepView& step) {
  out.append("{\"method\":");
  AppendJsonString(out, step.request->method);
  Text(out, "url", step.base_url + step.request->target);
  out.append(",\"headers\":[");
  for (const auto& [name, value] : step.request->headers) {
    if (out.back() == ']') out.push_back(',');
    out.push_back('[');
    AppendJsonString(out, name);
    out.push_back(',');
    AppendJsonString(out, IsCredentialField(name) ? "(hidden)" : std::string_view(value));
    out.push_back(']');
  }
  out.push_back(']');
  if (IsUtf8(step.request->body)) {
    Text(out, "body", step.request->body);
  } else {
    Text(out, "body_base64", ToBase64(step.request->body));
  }
  out.push_back('}');
}

void AppendStep(std::string& out, const StepView& view) {
  const FlowStep& step = view.step;
  out.append("{\"step\":").append(std::to_string(step.operation));
  Text(out, "tool", view.event ? view.event->tool : std::string());
  Text(out, "method", view.event ? view.event->method : std::string());
  Text(out, "path", view.event ? view.event->path : std::string());
  Text(out, "backend", view.event ? view.event->backend : std::string());
  Text(out, "phase", NameOf(step.phase));
  Text(out, "external_ref", view.event ? view.event->external_ref : std::string());
  Bool(out, "not_needed", step.end == StepEnd::kNotNeeded);
  Number(out, "undo_operation", step.undo);
  Text(out, "undo_phase", step.undo == 0 ? std::string_view() : NameOf(step.undo_phase));
  Number(out, "undo_attempts", step.undo_attempts);
  Text(out, "undo", NameOf(view.does));
  Text(out, "why", view.why);
  if (view.request) {
    out.append(",\"undo_request\":");
    AppendUndoRequest(out, view);
  }
  out.push_back('}');
}

void AppendPlanned(std::string& out, const StepView& view) {
  out.append("{\"step\":").append(std::to_string(view.step.operation));
  Text(out, "tool", view.event ? view.event->tool : std::string());
  Text(out, "undo", NameOf(view.does));
  Text(out, "why", view.why);
  Bool(out, "reached", view.is_reached);
  if (view.request) {
    out.append(",\"undo_request\":");
    AppendUndoRequest(out, view);
  }
  out.push_back('}');
}

}  // namespace

void AppendFlowLine(std::string& out, const FlowState& state) {
  const auto undone =
      std::count_if(state.steps.begin(), state.steps.end(),
                    [](const FlowStep& step) { return step.phase == Phase::kCompensated; });
  out.append("{\"number\":").append(std::to_string(state.number));
  Text(out, "flow", state.id);
  Text(out, "name", state.name);
  Text(out, "caller", state.caller);
  Text(out, "phase", NameOf(state.phase));
  Text(out, "cause", NameOf(state.cause));
  Text(out, "reason", state.reason);
  Text(out, "began", Rfc3339Millis(state.began_ms));
  Text(out, "changed", Rfc3339Millis(state.changed_ms));
  Bool(out, "has_deadline", state.has_deadline);
  Text(out, "policy_version", state.policy_version);
  Number(out, "step_count", state.steps.size());
  Number(out, "undone_count", static_cast<std::uint64_t>(undone));
  out.push_back('}');
}

std::string FlowJson(const FlowView& view) {
  std::string out;
  AppendFlowLine(out, view.state);
  out.pop_back();
  out.append(",\"steps\":[");
  for (const StepView& step : view.steps) {
    if (out.back() == '}') out.push_back(',');
    AppendStep(out, step);
  }
  out.append("]}");
  return out;
}

std::string PreviewJson(const FlowView& view) {
  std::string out;
  AppendFlowLine(out, view.state);
  out.pop_back();
  Text(out, "refused", view.refused);
  out.append(",\"plan\":[");
  for (const std::size_t index : view.order) {
    if (out.back() == '}') out.push_back(',');
    AppendPlanned(out, view.steps[index]);
  }
  out.append("]}");
  return out;
}

}  // namespace recourse
