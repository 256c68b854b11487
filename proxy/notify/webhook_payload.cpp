#include "proxy/notify/webhook_payload.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "filters/ledger/model/row_id.h"
#include "policy/undo/undo_class.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/flow_json.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/base/json/json_object.h"
#include "proxy/notify/slack_message.h"

namespace recourse {
namespace {

void WriteCall(JsonObject& json, std::string_view type, const Event& event) {
  json.Text("type", type);
  json.Raw("number", RowIdJson(event.operation));
  json.Text("tool", event.tool);
  json.Text("backend", event.backend);
  if (event.undo_class != UndoClass::kRead) json.Text("class", UndoClassName(event.undo_class));
  json.Text("caller", event.caller);
  json.Text("trace_id", event.trace_id);
  json.Text("flow", event.flow);
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

std::string ToShow(std::string_view what, std::uint64_t number) {
  return "recourse " + std::string(what) + " show " + PrintRowId(number);
}

}  // namespace

std::string WebhookSignature(std::string_view secret, std::int64_t unix_seconds,
                             std::string_view body) {
  const std::string time = std::to_string(unix_seconds);
  return "t=" + time + ",v1=" + ToHex(HmacSha256(secret, time + "." + std::string(body)));
}

std::string NewsOfParked(const FlowState& state, const std::vector<std::string>& tools,
                         NewsForm form) {
  const std::string command = ToShow("flows", state.number);
  if (form == NewsForm::kSlack) {
    return SlackMessage({IsStopped(state) ? "a flow stopped unfinished" : "a flow needs a human",
                         {{"flow", state.id},
                          {"name", state.name},
                          {"caller", state.caller},
                          {"why", state.reason},
                          {"since", Rfc3339Millis(state.changed_ms)}},
                         command});
  }
  std::string body;
  AppendFlowLine(body, state);
  AppendMembers(body, [&](JsonObject& json) {
    json.Text("type", IsStopped(state) ? "flow.stopped" : "flow.needs_human");
    json.Text("command", command);
    JsonList steps = json.List("steps");
    for (std::size_t i = 0; i < std::min(tools.size(), state.steps.size()); ++i) {
      const FlowStep& step = state.steps[i];
      JsonObject line = steps.Object();
      line.Raw("step", RowIdJson(step.operation));
      line.Text("tool", tools[i]);
      line.Text("phase", NameOf(step.phase));
      line.Text("undo_phase", step.undo == 0 ? std::string_view() : NameOf(step.undo_phase));
    }
  });
  return body;
}

std::string NewsOfUnknown(const Event& unknown, NewsForm form) {
  const std::string command = ToShow("events", unknown.id);
  const std::string since = Rfc3339Millis(unknown.wall_ms);
  if (form == NewsForm::kSlack) {
    return SlackMessage({"nobody knows whether a call took effect",
                         {{"tool", unknown.tool},
                          {"backend", unknown.backend},
                          {"caller", unknown.caller},
                          {"trace", unknown.trace_id},
                          {"why", std::string(NameOf(unknown.cause))},
                          {"since", since}},
                         command});
  }
  return ObjectText([&](JsonObject& json) {
    WriteCall(json, "operation.unknown", unknown);
    json.Text("since", since);
    json.Text("cause", NameOf(unknown.cause));
    json.Number("attempt", unknown.attempt);
    json.Text("command", command);
  });
}

std::string NewsOfAsked(const Event& claim, NewsForm form) {
  const ApprovalFacts& facts = *claim.approval;
  const std::string command = ToShow("approvals", claim.operation);
  const std::string since = Rfc3339Millis(facts.asked_ms);
  const std::string expires = Rfc3339Millis(facts.asked_ms + facts.expires_ms);
  if (form == NewsForm::kSlack) {
    return SlackMessage({"a call waits for approval",
                         {{"tool", claim.tool},
                          {"backend", claim.backend},
                          {"caller", claim.caller},
                          {"trace", claim.trace_id},
                          {"asked", Joined(facts.by)},
                          {"why", facts.why},
                          {"until", expires}},
                         command});
  }
  return ObjectText([&](JsonObject& json) {
    WriteCall(json, "approval.needed", claim);
    json.Number("needs", facts.needed);
    json.Texts("by", facts.by);
    json.Text("why", facts.why);
    json.Text("digest", ToHex(facts.digest));
    json.Text("since", since);
    json.Text("expires", expires);
    json.Text("command", command);
  });
}

}  // namespace recourse
