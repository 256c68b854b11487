#include "filters/waiting_clients.h"

namespace recourse {

void WaitingClients::Add(std::uint64_t operation, const ClientLink& client) {
  const std::scoped_lock lock(mutex_);
  clients_[operation] = &client;
}

void WaitingClients::Remove(std::uint64_t operation, const ClientLink& client) {
  const std::scoped_lock lock(mutex_);
  const auto found = clients_.find(operation);
  if (found != clients_.end() && found->second == &client) clients_.erase(found);
}

bool WaitingClients::Waits(std::uint64_t operation) const {
  const std::scoped_lock lock(mutex_);
  const auto found = clients_.find(operation);
  return found != clients_.end() && !found->second->HasLeft();
}

}  // namespace recourse
