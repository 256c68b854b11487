// `recourse policy check`: every problem of a policy, for people and for programs.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "policy/files/sources.h"
#include "policy/language/loader.h"

namespace recourse {

enum class CheckForm : std::uint8_t {
  kText,
  kJson,
  kSarif,  // SARIF 2.1.0, as code scanning takes it
};
struct CheckOptions {
  CheckForm form = CheckForm::kText;
  bool is_strict = false;  // warnings fail it, too
};

// What the policy must agree with elsewhere; unset: nothing.
using FurtherCheck = std::function<std::vector<PolicyProblem>(const LoadedPolicy& loaded)>;
// Gives 0, or 3: it is invalid.
int RunPolicyCheck(const std::string& path, std::ostream& out, const FurtherCheck& further = {},
                   CheckOptions options = {});

struct CheckedPolicy {
  std::size_t errors = 0, warnings = 0;
  bool is_valid = false;
  std::string text;  // as RunPolicyCheck prints it
};
// The same of files that are read already; `name` is what is said of them together.
CheckedPolicy CheckPolicyFiles(const std::string& name, PolicySources sources);

// Pure. `sources` are the files that the problems are about.
std::string SarifOf(const PolicySources& sources, const std::vector<PolicyProblem>& problems);

}  // namespace recourse
