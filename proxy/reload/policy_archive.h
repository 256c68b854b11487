// Policies that have been in force, as files beside the ledger: what an operation began under can
// be read again after a restart with another policy.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "policy/files/sources.h"
#include "proxy/config/files.h"
#include "proxy/reload/policy_load.h"

namespace recourse {

// Used by one thread at a time, never by an I/O thread.
class PolicyArchive {
 public:
  // `directory` is made with mode 0700 when the first policy is kept.
  PolicyArchive(std::string directory, PolicyLoader load)
      : directory_(std::move(directory)), load_(std::move(load)) {}

  // Durable when it returns.
  FileResult<void> Keep(const std::string& version, const std::vector<PolicySource>& files);
  // Fails with a line for people when there is no such file, when it is damaged, or when this
  // program does not accept the policy any more.
  FileResult<std::shared_ptr<Policy>> Load(const std::string& version) const;
  // The versions that came into force last, newest first.
  std::vector<std::string> Newest() const;
  // Removes all but `needed` and the kPoliciesArchived newest.
  void Prune(const std::set<std::string>& needed) const;

 private:
  std::string PathOf(const std::string& version) const;

  const std::string directory_;
  const PolicyLoader load_;
};

}  // namespace recourse
