// Where callers leave their verbs for the ledger's thread, and where that waits for them.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "filters/ledger/commit/group_commit_waits.h"
#include "proxy/base/clock.h"
#include "proxy/base/error.h"

namespace recourse::group_commit {

// Thread-safe.
class RequestQueue {
 public:
  explicit RequestQueue(const Clock& clock) : clock_(clock) {}

  // Wakes the ledger's thread, unless that looks here until `by` anyway.
  Result<void> Submit(Request request, std::size_t queue_max, MonoTime by = MonoTime::min());
  void SetRule(const LedgerRule& rule);
  // Refuses new verbs.
  void Stop();

  // On the ledger's thread. Takes the whole queue, once there is something or `due` has come.
  // False: stopping, and nothing is left.
  bool Take(std::optional<MonoTime> due, std::vector<Request>& taken);
  // The rule that is to be applied at `now`; nullopt: none. A new one is at once, else at `due`.
  std::optional<LedgerRule> TakeRule(std::optional<MonoTime> due, MonoTime now);

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Request> queue_;  // guarded by mutex_
  // When the ledger's thread looks here again, unless woken; guarded by mutex_. min(): before it
  // sleeps.
  MonoTime wakes_at_ = MonoTime::min();
  bool is_stopping_ = false;        // guarded by mutex_
  std::optional<LedgerRule> rule_;  // guarded by mutex_
  bool rule_is_new_ = false;        // guarded by mutex_
};

}  // namespace recourse::group_commit
