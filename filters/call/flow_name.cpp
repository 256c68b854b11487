#include "filters/call/flow_name.h"

#include <algorithm>

#include "filters/call/scope_text.h"
#include "proxy/base/crypto/sha256.h"

namespace recourse {
namespace {

constexpr std::size_t kPodNameHexDigits = 16;

bool IsFlowName(std::string_view text) {
  return !text.empty() && text.size() <= limits::kFlowNameBytesMax &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

// What a call holds where the policy looks for a flow's name; the same value names the same flow,
// in whatever place it stands.
std::string NameAt(const RequestContext& context, const CallBody& body, const ScopeRule& rule) {
  std::string text = ScopeText(context.request.headers, body, rule);
  if (rule.kind == ScopeRule::Kind::kBody) {
    if (const auto value = ParseJson(text)) text = ScalarText(*value);  // a text is quoted there
  }
  return IsFlowName(text) ? text : std::string();
}

std::string NameWithoutTrace(const RequestContext& context, const CallBody& body) {
  const WithoutTrace& rule = context.policy->flow_rules.without_trace;
  switch (rule.kind) {
    case WithoutTrace::Kind::kPlace:
      return NameAt(context, body, rule.place);
    case WithoutTrace::Kind::kPod:
      return context.pod_flow == nullptr ? std::string() : *context.pod_flow;
    case WithoutTrace::Kind::kNone:
      break;
  }
  return {};
}

}  // namespace

FlowName FlowOfCall(const RequestContext& context, const CallBody& body) {
  if (context.policy != nullptr) {
    for (const ScopeRule& rule : context.policy->flow_rules.parent) {
      if (std::string text = NameAt(context, body, rule); !text.empty()) return {std::move(text)};
    }
  }
  if (!context.trace.from_client && context.policy != nullptr) {
    std::string text = NameWithoutTrace(context, body);
    if (!text.empty()) return {std::move(text)};
  }
  return {context.trace.trace_id, context.trace.from_client};
}

Result<FlowName> FlowOf(const RequestContext& context, const CallBody& body) {
  const std::string* const named = FindHeader(context.request.headers, "Recourse-Flow");
  if (named == nullptr) return FlowOfCall(context, body);
  if (!IsFlowName(*named)) {
    return Malformed("Recourse-Flow is 1 to 128 visible ASCII characters");
  }
  return FlowName{*named};
}

std::string PodFlowName(const std::string& install_secret, const std::string& pod) {
  const HmacKey secret(install_secret);
  const Digest digest = secret.OfParts({"recourse-pod-flow-1", pod});
  return "pod-" + ToHex(AsView(digest)).substr(0, kPodNameHexDigits);
}

}  // namespace recourse
