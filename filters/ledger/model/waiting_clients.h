// Which operations have a client that still waits for their answer. An equal call of another trace
// is a retry only when that client has gone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace recourse {

// The connection of a client. Lives as long as it is in WaitingClients.
class ClientLink {
 public:
  virtual ~ClientLink() = default;
  // Thread-safe, does not block. It has broken the connection off: nothing reaches it any more.
  virtual bool HasLeft() const = 0;
  // The same, or it has closed its side for sending. Such a client may still read (RFC 9112 9.6),
  // or be gone: the two look alike until something is written to it.
  virtual bool MayHaveLeft() const = 0;
};

// Thread-safe. Bounded by the writes that are being worked on.
class WaitingClients {
 public:
  void Add(std::uint64_t operation, const ClientLink& client);
  // Once for each Add.
  void Remove(std::uint64_t operation, const ClientLink& client);
  // Whether a client other than `besides` waits for certain. One that may have left does not: its
  // call is then made once for both, where a gone client's retry would be made a second time.
  bool Waits(std::uint64_t operation, const ClientLink* besides) const {
    return table_->Waits(operation, besides);
  }

  // Outlives the clients, which leave it one by one. Thread-safe.
  class Table {
   public:
    bool Waits(std::uint64_t operation, const ClientLink* besides) const;

   private:
    friend class WaitingClients;
    mutable std::mutex mutex_;
    std::unordered_multimap<std::uint64_t, const ClientLink*> clients_;
  };
  std::shared_ptr<const Table> table() const { return table_; }

 private:
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

// One client's wait for the operation that its call became or joined; ends with this object,
// whatever becomes of the call. One thread at a time: the ledger's while Begin is awaited.
class ClientWait {
 public:
  ClientWait() = default;
  ClientWait(const ClientWait&) = delete;
  ClientWait& operator=(const ClientWait&) = delete;
  ~ClientWait() { WaitFor(0); }

  // Both outlive this object. Without it nobody waits.
  void Begin(WaitingClients& clients, const ClientLink& link) {
    clients_ = &clients;
    link_ = &link;
  }
  // For this operation, and no other one any more; 0: for none.
  void WaitFor(std::uint64_t operation) {
    if (clients_ == nullptr || operation == operation_) return;
    if (operation_ != 0) clients_->Remove(operation_, *link_);
    operation_ = operation;
    if (operation_ != 0) clients_->Add(operation_, *link_);
  }
  bool OthersWaitFor(std::uint64_t operation) const {
    return clients_ != nullptr && clients_->Waits(operation, link_);
  }
  // Null: nobody waits.
  std::shared_ptr<const WaitingClients::Table> table() const {
    return clients_ != nullptr ? clients_->table() : nullptr;
  }

 private:
  WaitingClients* clients_ = nullptr;
  const ClientLink* link_ = nullptr;
  std::uint64_t operation_ = 0;
};

}  // namespace recourse
