#include "filters/approval/approved_call.h"

#include <utility>

#include "filters/call/call_values.h"
#include "filters/call/codecs.h"
#include "filters/call/stored_call.h"
#include "policy/model/approval_need.h"
#include "policy/model/override_scan.h"

namespace recourse {
namespace {

constexpr std::size_t kParentAt = 36;  // in "00-<32 digits>-<16 digits>-01"
constexpr std::size_t kParentDigits = 16;
constexpr std::size_t kFlagsAt = kParentAt + kParentDigits + 1;
constexpr std::size_t kFlagsDigits = 2;

// As the chain left it when the call asked: the parent is the span of that call.
TraceContext TraceOf(const Event& event) {
  TraceContext trace;
  trace.trace_id = event.trace_id;
  trace.from_client = true;
  if (const std::string* field = FindHeader(event.request->headers, "traceparent");
      field != nullptr && field->size() == kFlagsAt + kFlagsDigits) {
    trace.parent_id = field->substr(kParentAt, kParentDigits);
    trace.flags = field->substr(kFlagsAt);
  }
  return trace;
}

std::string WhyEditForbidden(const Event& event, const HttpRequest& request, const Policy& policy) {
  const Tool* const tool = policy.FindTool(event.tool);
  if (tool == nullptr) return {};
  const StoredCall call(event, policy, request);
  return WhyForbidden(*tool, call.Values()).value_or(std::string());
}

}  // namespace

std::expected<std::unique_ptr<RequestContext>, std::string> ApprovedCall(
    const Event& event, std::shared_ptr<const Policy> policy) {
  if (!event.request) return std::unexpected("its request is not kept");
  const Backend* const backend = FindBackend(*policy, event.backend);
  if (backend == nullptr) return std::unexpected("no backend is called " + event.backend);
  const HttpRequest request{event.request->method, event.request->target, event.request->headers,
                            event.request->body};
  const Tool* const tool = FindToolOf(*policy, *backend, request, event.path);
  if (tool == nullptr || tool->name != event.tool) {
    return std::unexpected("the policy no longer takes it for a call of " + event.tool);
  }
  auto context = std::make_unique<RequestContext>();
  context->backend = backend;
  context->tool = tool;
  context->tool_name = event.tool;
  context->caller = event.caller;
  context->path = IsEndpointMessage(*backend, request) ? backend->endpoint : event.path;
  context->request = request;
  const std::string& target = context->request.target;
  if (const auto mark = target.find('?'); mark != std::string::npos) {
    context->query = ParsePairs(std::string_view(target).substr(mark + 1));
  }
  context->captures = CapturesOf(event, *policy);
  context->trace = TraceOf(event);
  context->approved = event.operation;
  context->approved_key = event.key;
  context->key_is_taken = event.approval && event.approval->repeats != 0;
  context->policy = std::move(policy);
  return context;
}

std::string ObjectionToEdit(const Event& event, const std::string& body, const Policy& policy) {
  if (!event.request) return "its request is not kept";
  HttpRequest request{event.request->method, event.request->target, event.request->headers,
                      event.request->body};
  const Backend* const backend = FindBackend(policy, event.backend);
  if (backend != nullptr && IsEndpointMessage(*backend, request)) {
    std::string objection =
        CodecOf(*backend).ObjectionToEdit(policy, *backend, event.tool, request, body);
    request.body = body;
    return objection.empty() ? WhyEditForbidden(event, request, policy) : objection;
  }
  const auto before = ReadCallBody(request);
  request.body = body;
  const auto after = ReadCallBody(request);
  if (!after) return "the new body cannot be read: " + std::string(after.error().detail());
  if (before && before->form != after->form) {
    return "the new body is not of the same kind as the original one";
  }
  const std::string* const type = FindHeader(request.headers, "Content-Type");
  if (OverrideScan scan(type == nullptr ? std::string_view() : std::string_view(*type));
      scan.Feed(body)) {
    return std::string(scan.reason());
  }
  return WhyEditForbidden(event, request, policy);
}

}  // namespace recourse
