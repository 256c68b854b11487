#include "filters/ledger/model/waiting_clients.h"

#include <algorithm>

namespace recourse {

void WaitingClients::Add(std::uint64_t operation, const ClientLink& client) {
  const std::scoped_lock lock(table_->mutex_);
  table_->clients_.emplace(operation, &client);
}

void WaitingClients::Remove(std::uint64_t operation, const ClientLink& client) {
  const std::scoped_lock lock(table_->mutex_);
  const auto [begin, end] = table_->clients_.equal_range(operation);
  for (auto at = begin; at != end; ++at) {
    if (at->second != &client) continue;
    table_->clients_.erase(at);
    return;
  }
}

bool WaitingClients::Table::Waits(std::uint64_t operation, const ClientLink* besides) const {
  const std::scoped_lock lock(mutex_);
  const auto [begin, end] = clients_.equal_range(operation);
  return std::any_of(begin, end, [besides](const auto& entry) {
    return entry.second != besides && !entry.second->MayHaveLeft();
  });
}

}  // namespace recourse
