// Any text is a policy or gets an error that says where; nothing else ever happens.
#include <string>

#include "policy/loader.h"
#include "policy/route_table.h"
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
  }
}

}  // namespace recourse
