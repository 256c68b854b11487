// Keeps the order that enforce would have had: a call that came after the end of another one is
// judged only when the outcome of that one is in the ledger.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "proxy/base/crypto/hash.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// Observe mode answers before it remembers, so the next call may overtake the outcome of the last.
// Thread-safe; shared by all I/O threads.
class ObservedOrder {
 public:
  // One call from its arrival to its outcome.
  class Place {
   private:
    friend class ObservedOrder;
    struct Waiter {
      Executor* executor = nullptr;
      std::shared_ptr<Promise<bool>> told;
    };
    Digest group{};
    bool has_ended = false;
    bool is_recorded = false;
    std::vector<Waiter> waiters;
    std::vector<std::shared_ptr<Place>> before;  // that had ended when this one came
  };

  // `group` is equal for calls that may be repeats of each other.
  std::shared_ptr<Place> Arrive(const Digest& group);
  // Returns once every call of the group that had ended before this one came has been recorded.
  // Resumes on `executor`. Calls wait for earlier ones only, so nobody waits for ever.
  Task<void> MyTurn(std::shared_ptr<Place> place, Executor& executor);
  void Ended(Place& place);
  // Call once, whatever came of it.
  void Recorded(const std::shared_ptr<Place>& place);

 private:
  std::mutex mutex_;
  // Guarded by mutex_, as are the members of every Place but `group`.
  std::unordered_map<Digest, std::vector<std::shared_ptr<Place>>, DigestHash> groups_;
};

}  // namespace recourse
