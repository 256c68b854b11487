// Which operations have a client that still waits for their answer. An equal call of another trace
// is a retry only when that client has gone.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace recourse {

// The connection of a client. Lives as long as it is in WaitingClients.
class ClientLink {
 public:
  virtual ~ClientLink() = default;
  // Thread-safe, does not block. A client that has closed its side for sending has left.
  virtual bool HasLeft() const = 0;
};

// Thread-safe. Bounded by the writes that are being worked on.
class WaitingClients {
 public:
  void Add(std::uint64_t operation, const ClientLink& client);
  // Once for each Add.
  void Remove(std::uint64_t operation, const ClientLink& client);
  // False: nobody is known, or whoever it was has left.
  bool Waits(std::uint64_t operation) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_multimap<std::uint64_t, const ClientLink*> clients_;
};

// One client's wait for the operation that its call became; ends with this object.
class ClientWait {
 public:
  ClientWait() = default;
  ClientWait(const ClientWait&) = delete;
  ClientWait& operator=(const ClientWait&) = delete;
  ~ClientWait() { Own(0); }

  // Both outlive this object.
  void Begin(WaitingClients& clients, const ClientLink& link) {
    clients_ = &clients;
    link_ = &link;
  }
  WaitingClients* clients() const { return clients_; }
  const ClientLink* link() const { return link_; }
  // The ledger has added the client for this operation, in place of the one before; 0: for none.
  void Own(std::uint64_t operation) {
    if (operation_ != 0) clients_->Remove(operation_, *link_);
    operation_ = operation;
  }

 private:
  WaitingClients* clients_ = nullptr;
  const ClientLink* link_ = nullptr;
  std::uint64_t operation_ = 0;
};

}  // namespace recourse
