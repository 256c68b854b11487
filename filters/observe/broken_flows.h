// Observe mode: the flows that enforce would have broken, so that their later writes are foretold
// as refused.
#pragma once

#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "filters/ledger/ledger.h"

namespace recourse {

// Thread-safe, in memory: of flows that broke since the process began, the last ones.
class BrokenFlows {
 public:
  void Add(const std::string& caller, const std::string& flow);
  bool Has(const std::string& caller, const std::string& flow) const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::set<Digest> broken_;
  std::deque<Digest> order_;  // of broken_, oldest first
};

}  // namespace recourse
