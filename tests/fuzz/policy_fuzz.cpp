// Any text is a policy or gets an error that says where; nothing else ever happens.
#include <string>

#include "policy/language/loader.h"
#include "policy/model/endpoint.h"
#include "policy/model/route_table.h"
#include "policy/model/tool_names.h"
#include "tests/fuzz/fuzz.h"

namespace recourse {

void FuzzOne(std::string_view bytes) {
  const LoadedPolicy loaded = LoadPolicyText("fuzz.yaml", std::string(bytes));
  bool has_error = false;
  for (const PolicyProblem& problem : loaded.problems) {
    RC_CHECK(!problem.message.empty());
    has_error = has_error || problem.severity == PolicyProblem::Severity::kError;
  }
  RC_CHECK(has_error == !loaded.ok());
  if (!loaded.ok()) return;
  // What loads can be asked.
  std::string scratch;
  for (const Backend& backend : loaded.policy->backends) {
    (void)loaded.policy->routes->FindBackend(backend.authority, 80);
    (void)loaded.policy->routes->Match(backend, "POST", "/orders/7", scratch);
    if (!backend.is_mcp()) continue;
    RC_CHECK(EndpointPathOf(backend, backend.endpoint) == EndpointPath::kExact);
    (void)EndpointPathOf(backend, "/MCP/");
    for (const Tool& tool : loaded.policy->tools) {
      if (tool.backend != static_cast<std::size_t>(&backend - loaded.policy->backends.data())) {
        continue;
      }
      for (const std::string& name : tool.mcp_names) {
        const Tool* const found = loaded.policy->routes->FindCalledTool(backend, name);
        RC_CHECK(found != nullptr && (IsMcpGlob(name) || found == &tool));
      }
    }
  }
}

}  // namespace recourse
