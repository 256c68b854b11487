#include "proxy/server/approval_json.h"

#include "policy/template.h"
#include "proxy/base/hash.h"
#include "proxy/base/json.h"
#include "proxy/server/body_changes.h"
#include "proxy/server/event_json.h"
#include "proxy/server/poll_answer.h"

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

void Body(std::string& out, const std::string& body) {
  Number(out, "body_bytes", body.size());
  Text(out, "body_sha256", ToHex(Sha256(body)));
  if (IsUtf8(body)) {
    Text(out, "body", body);
  } else {
    Text(out, "body_base64", ToBase64(body));
  }
}

void AppendRequest(std::string& out, const RenderedRequest& request) {
  out.append("{\"method\":");
  AppendJsonString(out, request.method);
  Text(out, "target", request.target);
  out.append(",\"headers\":[");
  for (const auto& [name, value] : request.headers) {
    if (out.back() == ']') out.push_back(',');
    out.push_back('[');
    AppendJsonString(out, name);
    out.push_back(',');
    AppendJsonString(out, IsCredentialField(name) ? "(hidden)" : std::string_view(value));
    out.push_back(']');
  }
  out.push_back(']');
  Body(out, request.body);
  out.push_back('}');
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

void AppendDecision(std::string& out, const ApprovalDecision& decision) {
  out.append("{\"decision\":");
  AppendJsonString(out, NameOf(decision.kind));
  Text(out, "who", decision.who);
  Text(out, "reason", decision.reason);
  Text(out, "time", Rfc3339Millis(decision.wall_ms));
  Text(out, "digest", ToHex(decision.digest));
  Bool(out, "counts", !decision.is_late && !decision.is_void);
  Bool(out, "late", decision.is_late);
  out.push_back('}');
}

void AppendChanges(std::string& out, const std::string& before, const std::string& after) {
  out.append(",\"changes\":[");
  for (const BodyChange& change : ChangesBetween(before, after)) {
    if (out.back() == '}') out.push_back(',');
    out.append("{\"at\":");
    AppendJsonString(out, change.at);
    Text(out, "before", change.before);
    Text(out, "after", change.after);
    out.push_back('}');
  }
  out.push_back(']');
}

// The object without its end.
void AppendFacts(std::string& out, const Event& event) {
  const ApprovalFacts& facts = *event.approval;
  out.append("{\"operation\":").append(std::to_string(event.operation));
  Number(out, "event", event.id);
  Text(out, "status", ApprovalStatus(event.phase));
  Text(out, "phase", NameOf(event.phase));
  Text(out, "cause", NameOf(event.cause));
  Text(out, "detail", event.detail);
  Text(out, "tool", event.tool);
  Text(out, "backend", event.backend);
  Text(out, "method", event.method);
  Text(out, "path", event.path);
  Text(out, "caller", event.caller);
  Text(out, "trace_id", event.trace_id);
  Text(out, "flow", event.flow);
  Text(out, "policy_version", event.policy_version);
  Text(out, "why", facts.why);
  Number(out, "needs", facts.needed);
  Number(out, "approvals", static_cast<std::uint64_t>(CountApprovals(facts)));
  out.append(",\"by\":[");
  for (const std::string& name : facts.by) {
    if (out.back() == '"') out.push_back(',');
    AppendJsonString(out, name);
  }
  out.push_back(']');
  Text(out, "asked", Rfc3339Millis(facts.asked_ms));
  Text(out, "expires", Rfc3339Millis(facts.asked_ms + facts.expires_ms));
  Text(out, "digest", ToHex(facts.digest));
}

}  // namespace

void AppendApprovalLine(std::string& out, const Event& event) {
  AppendFacts(out, event);
  if (event.request) Number(out, "body_bytes", event.request->body.size());
  out.push_back('}');
}

std::string ApprovalJson(const Event& event, const RenderedRequest* request,
                         const std::string* original_body, const std::vector<Event>& earlier) {
  std::string out;
  AppendFacts(out, event);
  out.append(",\"request\":");
  if (request == nullptr) {
    out.append("null");
  } else {
    AppendRequest(out, *request);
  }
  if (original_body != nullptr && request != nullptr) {
    out.append(",\"original\":{\"edited\":true");
    Body(out, *original_body);
    out.push_back('}');
    AppendChanges(out, *original_body, request->body);
  }
  out.append(",\"decisions\":[");
  for (const ApprovalDecision& decision : event.approval->decisions) {
    if (out.back() == '}') out.push_back(',');
    AppendDecision(out, decision);
  }
  out.append("],\"earlier\":[");
  for (const Event& call : earlier) {
    if (out.back() == '}') out.push_back(',');
    out.append("{\"operation\":").append(std::to_string(call.operation));
    Text(out, "time", Rfc3339Millis(call.wall_ms));
    Text(out, "phase", NameOf(call.phase));
    Text(out, "tool", call.tool);
    Text(out, "method", call.method);
    Text(out, "path", call.path);
    out.push_back('}');
  }
  out.append("]}");
  return out;
}

}  // namespace recourse
