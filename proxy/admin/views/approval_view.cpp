#include "proxy/admin/views/approval_view.h"

#include "filters/ledger/model/row_id.h"
#include "policy/template/template.h"
#include "proxy/admin/views/body_diff.h"
#include "proxy/admin/views/event_view.h"
#include "proxy/admin/views/message_view.h"
#include "proxy/base/crypto/hash.h"
#include "proxy/exchange/poll_answer.h"

namespace recourse {
namespace {

void WriteWholeBody(JsonObject& json, const std::string& body) {
  json.Number("body_bytes", body.size());
  json.Text("body_sha256", ToHex(Sha256(body)));
  WriteBody(json, body);
}

void AppendChange(std::string& out, const BodyChange& change) {
  JsonObject json(out);
  json.Text("at", change.at);
  json.Text("before", change.before);
  json.Text("after", change.after);
}

void AppendEarlier(std::string& out, const Event& call) {
  JsonObject json(out);
  json.Raw("operation", RowIdJson(call.operation));
  json.Text("time", Rfc3339Millis(call.wall_ms));
  json.Text("phase", NameOf(call.phase));
  json.Text("tool", call.tool);
  json.Text("method", call.method);
  json.Text("path", call.path);
}

void WriteRequest(JsonObject& json, const RenderedRequest* request) {
  if (request == nullptr) {
    json.Raw("request", "null");
    return;
  }
  JsonObject message(json.Value("request"));
  message.Text("method", request->method);
  message.Text("target", ShownTarget(request->target, "(hidden)"));
  WriteFields(message, request->headers, "(hidden)");
  WriteWholeBody(message, request->body);
}

void WriteFacts(JsonObject& json, const Event& event, std::string_view summary) {
  const ApprovalFacts& facts = *event.approval;
  json.Raw("operation", RowIdJson(event.operation));
  json.Raw("event", RowIdJson(event.id));
  json.Text("status", ApprovalStatus(event.phase));
  json.Text("phase", NameOf(event.phase));
  json.Text("cause", NameOf(event.cause));
  json.Text("detail", event.detail);
  json.Text("tool", event.tool);
  json.Text("backend", event.backend);
  json.Text("method", event.method);
  json.Text("path", event.path);
  json.Text("caller", event.caller);
  json.Text("trace_id", event.trace_id);
  json.Text("flow", event.flow);
  json.Text("policy_version", event.policy_version);
  json.Text("summary", summary);
  json.Text("why", facts.why);
  json.Number("needs", facts.needed);
  json.Number("approvals", CountApprovals(facts));
  json.Texts("by", facts.by);
  json.Text("asked", Rfc3339Millis(facts.asked_ms));
  json.Text("expires", Rfc3339Millis(facts.asked_ms + facts.expires_ms));
  json.Text("digest", ToHex(facts.digest));
}

}  // namespace

void AppendApprovalLine(std::string& out, const Event& event, std::string_view summary,
                        PodNames& pods) {
  JsonObject json(out);
  WriteFacts(json, event, summary);
  pods.Write(json, event.id);
  if (event.request) json.Number("body_bytes", event.request->body.size());
}

std::string ApprovalJson(const Event& event, std::string_view summary,
                         const RenderedRequest* request, const std::string* original_body,
                         const std::vector<std::string>& credentials,
                         const std::vector<Event>& earlier, PodNames& pods) {
  return ObjectText([&](JsonObject& json) {
    WriteFacts(json, event, summary);
    pods.Write(json, event.id);
    WriteRequest(json, request);
    if (original_body != nullptr && request != nullptr) {
      {
        JsonObject original(json.Value("original"));
        original.Bool("edited", true);
        WriteWholeBody(original, *original_body);
      }
      json.Each("changes", ChangesBetween(*original_body, request->body), AppendChange);
    }
    json.Texts("credentials", credentials);
    json.Each("decisions", event.approval->decisions, AppendDecision);
    json.Each("earlier", earlier, AppendEarlier);
  });
}

}  // namespace recourse
