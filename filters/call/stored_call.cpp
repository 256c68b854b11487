#include "filters/call/stored_call.h"

#include <algorithm>

#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"

namespace recourse {
namespace {

Pairs QueryOf(const std::string& target) {
  const auto question = target.find('?');
  return ParsePairs(question == std::string::npos ? std::string_view()
                                                  : std::string_view(target).substr(question + 1));
}

CallBody BodyOf(const Backend* backend, const HttpRequest& request) {
  auto body = backend == nullptr ? ReadCallBody(request) : ReadCallBody(*backend, request);
  return std::move(body).value_or(CallBody());
}

}  // namespace

const Backend* FindBackend(const Policy& policy, std::string_view name) {
  const auto at = std::find_if(policy.backends.begin(), policy.backends.end(),
                               [&](const Backend& backend) { return backend.name == name; });
  return at == policy.backends.end() ? nullptr : &*at;
}

bool IsSamePlace(const Backend& a, const Backend& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port &&
         a.base_path == b.base_path && a.endpoint == b.endpoint;
}

const KeyRule& KeyRuleOf(const Event& event, const Policy* policy) {
  static const KeyRule kUnknown;
  const Backend* const backend = policy == nullptr ? nullptr : FindBackend(*policy, event.backend);
  if (backend == nullptr) return kUnknown;
  const Tool* const tool = policy->FindTool(event.tool);
  return KeyRuleOf(tool == nullptr ? UnlistedTool() : *tool, *backend);
}

const Tool* FindToolOf(const Policy& policy, const Backend& backend, const HttpRequest& request,
                       const std::string& path) {
  if (policy.routes == nullptr) return nullptr;
  if (IsEndpointMessage(backend, request)) {
    const auto body = ReadCallBody(backend, request);
    if (!body || !body->calls_tool()) return nullptr;
    return policy.routes->FindCalledTool(backend, body->call_name);
  }
  std::string scratch;
  const auto match = policy.routes->Match(backend, request.method, path, scratch);
  return match ? match->tool : nullptr;
}

void NameCall(const HttpRequest& request, std::string path, const CallBody& reading, Event& event) {
  event.method = reading.calls_tool() ? std::string(reading.call_method) : request.method;
  event.path = reading.calls_tool() ? ShownCallName(reading.call_name) : std::move(path);
}

void NameCall(const Backend& backend, const HttpRequest& request, std::string path, Event& event) {
  const bool is_message = IsEndpointMessage(backend, request);
  NameCall(request, std::move(path), is_message ? BodyOf(&backend, request) : CallBody(), event);
}

Pairs CapturesOf(const Event& event, const Policy& policy) {
  const Backend* const backend = FindBackend(policy, event.backend);
  if (backend == nullptr || policy.routes == nullptr || IsCallByName(event.method)) return {};
  Pairs captures;
  std::string scratch;
  const auto match = policy.routes->Match(*backend, event.method, event.path, scratch);
  if (!match || match->tool == nullptr || match->tool->name != event.tool) return captures;
  for (std::size_t i = 0; i < match->capture_count; ++i) {
    std::string value;
    if (!PercentDecode(match->captures[i].value, value)) return {};
    captures.emplace_back(std::string(match->captures[i].name), std::move(value));
  }
  return captures;
}

StoredCall::StoredCall(const Event& event, const Policy& policy, const HttpRequest& request)
    : request_(request),
      captures_(CapturesOf(event, policy)),
      query_(QueryOf(request.target)),
      body_(BodyOf(FindBackend(policy, event.backend), request)) {}

CallValues StoredCall::Values() const {
  CallValues values;
  values.path = &captures_;
  values.query = &query_;
  values.headers = &request_.headers;
  values.body = body_.values();
  values.body_is_form = body_.is_form();
  values.body_is_partial = body_.is_partial();
  return values;
}

}  // namespace recourse
