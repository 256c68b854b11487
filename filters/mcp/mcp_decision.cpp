#include "filters/mcp/mcp_decision.h"

#include <algorithm>
#include <array>

#include "policy/model/mcp_twins.h"
#include "policy/model/route_table.h"

namespace recourse {

McpDecision DecideMcp(const Policy& policy, const Backend& backend,
                      const std::vector<McpRequest>& requests,
                      const std::optional<ToolFacts>& facts) {
  using Kind = McpRequest::Kind;
  McpDecision decision;
  decision.unlisted = policy.unlisted_writes;
  const McpRequest& first = requests.front();
  if (requests.size() > 1 || first.kind == Kind::kRead || first.kind == Kind::kPass) {
    decision.effect = Effect::kRead;
    decision.passes_once = std::ranges::any_of(
        requests, [](const McpRequest& request) { return request.kind == Kind::kPass; });
    return decision;
  }
  decision.is_denied = decision.unlisted == UnlistedRule::kDeny;
  if (first.kind != Kind::kToolCall) return decision;
  decision.tool = policy.routes->FindCalledTool(backend, first.tool);
  if (decision.tool != nullptr) {
    decision.effect = decision.tool->effect;
    decision.is_denied = false;
  } else if (backend.trust_annotations && facts && facts->is_read_only && !facts->has_changed) {
    decision.effect = Effect::kRead;
    decision.is_denied = policy.unlisted_reads == UnlistedRule::kDeny;
  }
  if (!decision.is_denied) {
    decision.objection =
        ObjectionToMcpName(policy, backend, first.tool, decision.tool, decision.effect);
  }
  return decision;
}

std::string_view McpMethodLabel(std::string_view method) {
  static constexpr std::array<std::string_view, 26> kMethods{"tools/call",
                                                             "tools/list",
                                                             "initialize",
                                                             "server/discover",
                                                             "ping",
                                                             "prompts/list",
                                                             "prompts/get",
                                                             "resources/list",
                                                             "resources/templates/list",
                                                             "resources/read",
                                                             "resources/subscribe",
                                                             "resources/unsubscribe",
                                                             "tasks/get",
                                                             "tasks/list",
                                                             "tasks/result",
                                                             "tasks/update",
                                                             "tasks/cancel",
                                                             "logging/setLevel",
                                                             "completion/complete",
                                                             "subscriptions/listen",
                                                             "notifications/initialized",
                                                             "notifications/cancelled",
                                                             "notifications/progress",
                                                             "notifications/roots/list_changed",
                                                             "notifications/message",
                                                             "notifications/elicitation/complete"};
  if (method.empty()) return "response";
  const auto found = std::ranges::find(kMethods, method);
  return found == kMethods.end() ? "other" : *found;
}

}  // namespace recourse
