#include "proxy/exchange/head_judgement.h"

#include <algorithm>
#include <array>

#include "policy/language/fields_read.h"
#include "policy/model/method_override.h"
#include "proxy/exchange/request_facts.h"

namespace recourse {
namespace {

constexpr const char* kOverrides = "a call may not override its method or path";

std::optional<CallRefusal> RefusalOfFields(const Policy& policy, const Head& head) {
  if (!head.has_odd_name) return std::nullopt;
  for (std::size_t i = 0; i < head.field_count; ++i) {
    const std::string twin = ReadTwin(policy, head.fields[i].name);
    if (!twin.empty()) return CallRefusal(ErrorCode::kMalformedRequest, WhyTwinRefused(twin));
  }
  return std::nullopt;
}

std::string WhyDenied(const RouteTable& routes, const RouteMatch& match) {
  const Backend& backend = *match.backend;
  if (match.effect == Effect::kRead || routes.EndpointsAt(backend) == nullptr) {
    return "no tool of the policy matches this call, and unlisted calls are denied";
  }
  return "another path of such a server may be another door to its tools: list it as a tool of its "
         "own" +
         (backend.has_endpoint() ? ", or use the endpoint " + backend.endpoint : std::string());
}

}  // namespace

bool OverridesMethod(const Head& head, std::string_view query) {
  return head.Has(FieldId::kMethodOverride) || HasMethodOverride(query);
}

bool IsQuestionAboutWrite(const Head& head, const RouteMatch& match) {
  return (head.method == "HEAD" || head.method == "OPTIONS") && match.effect == Effect::kWrite &&
         match.tool != nullptr &&
         std::ranges::find(match.tool->methods, head.method) == match.tool->methods.end();
}

std::optional<CallRefusal> RefusalOfHead(const Policy& policy, const Head& head,
                                         const EndpointPlace& place, std::string_view query,
                                         const std::expected<void, CallRefusal>& found,
                                         const RouteMatch& match) {
  if (place.where == EndpointPath::kAmbiguous) {
    const Backend& meant = *place.endpoint_of;
    return CallRefusal(ErrorCode::kAmbiguousPath,
                       "this path may be taken for the endpoint " + meant.endpoint + " of " +
                           meant.name + ", which has to be written as it is, under a name of " +
                           meant.name);
  }
  if (!found) return found.error();
  if (auto refusal = RefusalOfFields(policy, head)) return refusal;
  // What an agent says to us of its flow goes to no backend.
  if (HasFlowOrder(head)) return std::nullopt;
  if (IsQuestionAboutWrite(head, match)) {
    if (head.method == "OPTIONS") return std::nullopt;
    return CallRefusal(ErrorCode::kMethodNotAllowed,
                       "this path is a write, which HEAD cannot ask for");
  }
  if (OverridesMethod(head, query)) return CallRefusal(ErrorCode::kMalformedRequest, kOverrides);
  if (match.tool == nullptr && match.unlisted == UnlistedRule::kDeny) {
    return CallRefusal(ErrorCode::kDenied, WhyDenied(*policy.routes, match));
  }
  return std::nullopt;
}

std::optional<CallRefusal> RefusalAtEndpoint(const Policy& policy, const Head& head,
                                             std::string_view query) {
  static constexpr std::array<std::string_view, 5> kMethods{"POST", "GET", "DELETE", "HEAD",
                                                            "OPTIONS"};
  if (OverridesMethod(head, query)) return CallRefusal(ErrorCode::kMalformedRequest, kOverrides);
  if (auto refusal = RefusalOfFields(policy, head)) return refusal;
  if (head.method == "POST" || HasFlowOrder(head)) return std::nullopt;
  if (std::ranges::find(kMethods, head.method) == kMethods.end()) {
    return CallRefusal(ErrorCode::kMethodNotAllowed,
                       "this endpoint knows no " + std::string(head.method));
  }
  // A server that reads it all the same would take it for a message.
  if (HasBody(head)) {
    return CallRefusal(ErrorCode::kMalformedRequest,
                       "at this endpoint only a POST may have a body");
  }
  return std::nullopt;
}

}  // namespace recourse
