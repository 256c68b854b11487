// Policies that have been in force, as files beside the ledger, and in a ledger that is shared also
// there: what an operation began under can be read again after a restart with another policy, and
// by a process that never had it.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "filters/ledger/shared_view.h"
#include "policy/files/sources.h"
#include "proxy/config/files.h"
#include "proxy/reload/policy_load.h"

namespace recourse {

// Used by one thread at a time, never by an I/O thread.
class PolicyArchive {
 public:
  // `directory` is made with mode 0700 when the first policy is kept. `ledger` outlives it.
  PolicyArchive(std::string directory, PolicyLoader load, Ledger& ledger)
      : directory_(std::move(directory)),
        load_(std::move(load)),
        shared_(dynamic_cast<SharedLedgerView*>(&ledger)) {}

  // Durable when it returns.
  FileResult<void> Keep(const std::string& version, const std::vector<PolicySource>& files);
  // Fails with a line for people when it was never kept, when it is damaged, or when this program
  // does not accept the policy any more. Null: the ledger cannot be asked for it now.
  FileResult<std::shared_ptr<Policy>> Load(const std::string& version) const;
  // The versions that came into force last, newest first; in a shared ledger at whatever process.
  std::vector<std::string> Recent() const;
  // Removes all but `needed` and the kPoliciesArchived newest.
  void Prune(const std::set<std::string>& needed) const;

 private:
  std::string PathOf(const std::string& version) const;
  std::vector<std::string> Newest() const;

  const std::string directory_;
  const PolicyLoader load_;
  SharedLedgerView* const shared_;  // null: the ledger is of one process
};

}  // namespace recourse
