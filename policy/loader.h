// YAML to Policy, with every problem that can be found in one run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policy/policy.h"

namespace recourse {

struct PolicyProblem {
  enum class Severity : std::uint8_t { kError, kWarning };
  Severity severity = Severity::kError;
  std::string file;
  int line = 0;         // 1-based; 0: the whole file
  int column = 0;       // 1-based
  std::string key;      // dotted path, e.g. tools.orders.create.undo
  std::string message;  // what is wrong and what is accepted
  // "policy.yaml:12:5: error: tools.orders.create.undo: ..."
  std::string ToString() const;
};

struct LoadedPolicy {
  std::shared_ptr<Policy> policy;       // null when there is an error; constant once it is run
  std::vector<PolicyProblem> problems;  // errors and warnings, by file and line
  bool ok() const { return policy != nullptr; }
};

// Whether the certificate and key files that a policy names must be there and fit: to run it, and
// for `policy check`. How a call is judged does not depend on them.
enum class TlsFiles : std::uint8_t { kIgnore, kCheck };

// `path` is a YAML file, or a directory whose *.yaml and *.yml files (not hidden ones, by name) are
// read as one policy: `version` in each, every other section merged, names unique over all files.
LoadedPolicy LoadPolicy(const std::string& path, TlsFiles files = TlsFiles::kIgnore);
// For tests and for tools: `name` stands for the file in messages.
LoadedPolicy LoadPolicyText(const std::string& name, const std::string& yaml);

}  // namespace recourse
