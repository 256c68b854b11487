#include "filters/ledger/engine/join_table.h"

#include <algorithm>

#include "proxy/base/limits.h"

namespace recourse {

bool JoinTable::Add(JoinWait& wait) {
  std::vector<JoinWait*>& waits = by_operation_[wait.operation];
  if (waits.size() >= limits::kJoinersPerOperationMax) return false;
  waits.push_back(&wait);
  by_deadline_.emplace(wait.deadline, &wait);
  return true;
}

std::vector<JoinWait*> JoinTable::TakeOperation(std::uint64_t operation) {
  const auto found = by_operation_.find(operation);
  if (found == by_operation_.end()) return {};
  std::vector<JoinWait*> waits = std::move(found->second);
  by_operation_.erase(found);
  for (JoinWait* wait : waits) by_deadline_.erase({wait->deadline, wait});
  return waits;
}

std::vector<JoinWait*> JoinTable::TakeExpired(MonoTime now) {
  std::vector<JoinWait*> expired;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
    JoinWait* const wait = by_deadline_.begin()->second;
    by_deadline_.erase(by_deadline_.begin());
    const auto found = by_operation_.find(wait->operation);
    std::erase(found->second, wait);
    if (found->second.empty()) by_operation_.erase(found);
    expired.push_back(wait);
  }
  return expired;
}

std::vector<JoinWait*> JoinTable::TakeAll() {
  std::vector<JoinWait*> all;
  for (const auto& [deadline, wait] : by_deadline_) all.push_back(wait);
  by_deadline_.clear();
  by_operation_.clear();
  return all;
}

std::optional<MonoTime> JoinTable::earliest() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

}  // namespace recourse
