#include "filters/approval/approved_call.h"

#include <utility>

#include "filters/call_values.h"
#include "filters/stored_call.h"
#include "policy/method_override.h"
#include "policy/route_table.h"

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

}  // namespace

std::expected<std::unique_ptr<RequestContext>, std::string> ApprovedCall(
    const Event& event, std::shared_ptr<const Policy> policy) {
  if (!event.request) return std::unexpected("its request is not kept");
  const Backend* const backend = FindBackend(*policy, event.backend);
  if (backend == nullptr) return std::unexpected("no backend is called " + event.backend);
  std::string scratch;
  const auto match = policy->routes->Match(*backend, event.request->method, event.path, scratch);
  if (!match || match->tool == nullptr || match->tool->name != event.tool) {
    return std::unexpected("the policy no longer takes it for a call of " + event.tool);
  }
  auto context = std::make_unique<RequestContext>();
  context->backend = backend;
  context->tool = match->tool;
  context->tool_name = event.tool;
  context->caller = event.caller;
  context->path = event.path;
  context->request = {event.request->method, event.request->target, event.request->headers,
                      event.request->body};
  const std::string& target = context->request.target;
  if (const auto mark = target.find('?'); mark != std::string::npos) {
    context->query = ParsePairs(std::string_view(target).substr(mark + 1));
  }
  context->captures = CapturesOf(event, *policy);
  context->trace = TraceOf(event);
  context->approved = event.operation;
  context->key_is_taken = event.approval && event.approval->repeats != 0;
  context->policy = std::move(policy);
  return context;
}

std::string ObjectionToEdit(const Event& event, const std::string& body) {
  if (!event.request) return "its request is not kept";
  HttpRequest request{event.request->method, event.request->target, event.request->headers,
                      event.request->body};
  const auto before = ReadCallBody(request);
  request.body = body;
  const auto after = ReadCallBody(request);
  if (!after) return "the new body cannot be read: " + std::string(after.error().detail());
  if (before && before->form != after->form) {
    return "the new body is not of the same kind as the original one";
  }
  const std::string* const type = FindHeader(request.headers, "Content-Type");
  if (FormOverrideScan scan(type == nullptr ? std::string_view() : std::string_view(*type));
      scan.Feed(body)) {
    return "a form may not override its method";
  }
  return {};
}

}  // namespace recourse
