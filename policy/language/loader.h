// YAML to Policy, with every problem that can be found in one run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "policy/files/problem.h"
#include "policy/files/sources.h"
#include "policy/model/policy.h"

namespace recourse {

// A name in the `by` of an approval.
struct NamedApprover {
  std::string name;
  PolicyProblem where;  // without a message
};

struct LoadedPolicy {
  std::shared_ptr<Policy> policy;       // null when there is an error; constant once it is run
  std::vector<PolicyProblem> problems;  // errors and warnings, by file and line
  std::vector<NamedApprover> approvers;
  bool ok() const { return policy != nullptr; }
};

// Whether the certificate and key files that a policy names must be there and fit: to run it, and
// for `policy check`. How a call is judged does not depend on them.
enum class TlsFiles : std::uint8_t { kIgnore, kCheck };

// `path` is a YAML file, or a directory whose *.yaml and *.yml files (not hidden ones, by name) are
// read as one policy: `version` in each, every other section merged, names unique over all files.
LoadedPolicy LoadPolicy(const std::string& path, TlsFiles files = TlsFiles::kIgnore);
// The same of what was read already.
LoadedPolicy LoadPolicyFiles(const PolicySources& sources, TlsFiles files = TlsFiles::kIgnore);
// Of a tree that was read or made already. Null: a problem is an error.
struct YamlNode;
class Problems;
std::shared_ptr<Policy> LoadPolicyTree(const YamlNode& root, Problems& problems);
// For tests and for tools: `name` stands for the file in messages.
LoadedPolicy LoadPolicyText(const std::string& name, const std::string& yaml);

}  // namespace recourse
