// Who waits for which operation, and until when.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"

namespace recourse {

// One waiting Join; lives in the frame of the coroutine that waits.
struct JoinWait {
  std::uint64_t operation = 0;
  MonoTime deadline;
  Executor* executor = nullptr;
  Result<std::optional<Event>> result;
  bool reads = false;  // waits for nothing
  Promise<Result<std::optional<Event>>> promise;
};

// One thread at a time. Holds pointers only; whoever takes a wait out completes it.
class JoinTable {
 public:
  // False when kJoinersPerOperationMax wait for this operation already.
  bool Add(JoinWait& wait);
  bool Has(std::uint64_t operation) const { return by_operation_.contains(operation); }
  std::vector<JoinWait*> TakeOperation(std::uint64_t operation);
  std::vector<JoinWait*> TakeExpired(MonoTime now);
  std::vector<JoinWait*> TakeAll();
  std::optional<MonoTime> earliest() const;

 private:
  std::unordered_map<std::uint64_t, std::vector<JoinWait*>> by_operation_;
  std::set<std::pair<MonoTime, JoinWait*>> by_deadline_;
};

}  // namespace recourse
