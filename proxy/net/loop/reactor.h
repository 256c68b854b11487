// Which sockets of the data plane are ready on one I/O thread, and who goes on. Each descriptor is
// registered once, edge-triggered. Who needs one tries it, and parks when the kernel has no more
// for it: no call is made in vain, and none to say what is waited for.
#pragma once

#include <cstdint>
#include <utility>

namespace recourse {

// Somebody who goes on later. It stays where it is from when it is queued or parked until then.
class PendingOp {
 public:
  using Go = void (*)(PendingOp& self);
  explicit PendingOp(Go go) : go_(go) {}

 private:
  friend class PendingQueue;
  friend class Reactor;
  Go go_;
  PendingOp* next_ = nullptr;
};

// First in, first out. Owns nobody.
class PendingQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  void Push(PendingOp& waiter) {
    waiter.next_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_) = &waiter;
    last_ = &waiter;
  }
  // Null when there is none.
  PendingOp* Pop() {
    PendingOp* const waiter = first_;
    if (waiter != nullptr) first_ = waiter->next_;
    return waiter;
  }
  // Everybody of `other` comes in behind, and leaves that queue.
  void Append(PendingQueue& other) {
    if (other.empty()) return;
    (first_ == nullptr ? first_ : last_->next_) = other.first_;
    last_ = other.last_;
    other.first_ = nullptr;
  }

 private:
  PendingOp* first_ = nullptr;
  PendingOp* last_ = nullptr;  // of no meaning while there is no first
};

class Reactor;

enum class Ready : std::uint8_t { kRead, kWrite };

// A descriptor that never blocks, as its poller sees it. Belongs to the poller's thread.
class Descriptor {
 public:
  // Takes `fd` over. When the kernel cannot watch it, it is closed at once, and errno says why.
  Descriptor(Reactor& reactor, int fd);
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  Reactor& reactor() { return reactor_; }

  // There may be something to read, or its end. False: the kernel has nothing, and will tell.
  bool may_read() const { return may_read_; }
  // A read has found nothing.
  void FoundNothing() { may_read_ = false; }
  // A read has found less than it had room for, which is all (epoll(7)); an end or an error that
  // was told of already is not told of again, and urgent data stops a read before its end.
  void FoundLess() { may_read_ = reads_to_end_; }
  // Asks the kernel. If it is not ready, the kernel will tell when it is.
  bool IsReady(Ready what);

  // `waiter` goes on in the turn in which the descriptor is ready, canceled or closed. Only after
  // the kernel has said that it is not ready.
  void Park(PendingOp& waiter, Ready what);
  // Who is parked goes on with the next turn, and tries again.
  void Wake();
  // The same. Whoever began before that must not park again: it compares cancels() with what it was
  // then.
  void Cancel();
  std::uint32_t cancels() const { return cancels_; }
  // Also cancels.
  void Close();

 private:
  friend class Reactor;
  void Take(std::uint32_t events);

  Reactor& reactor_;
  int fd_;
  bool may_read_ = false;  // the kernel tells at once what was there before it was asked to watch
  bool reads_to_end_ = false;
  std::uint32_t cancels_ = 0;
  PendingQueue readers_, writers_;  // with TLS, a read may wait to write, and a write to read
};

class Reactor {
 public:
  Reactor();  // throws std::system_error (start-up only)
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // It goes on in the next turn, when those before it have.
  void Queue(PendingOp& waiter) { queue_.Push(waiter); }
  // It goes on at the end of this turn, when everybody else has, or as soon as kTogetherMax wait
  // for that. Whoever queues so again meanwhile goes on when all of them have; after that, in the
  // next turn.
  void QueueLast(PendingOp& waiter) {
    last_.Push(waiter);
    ++last_count_;
  }
  bool has_queued() const { return !queue_.empty() || !last_.empty(); }

  // `epoll`, a set of somebody else's, is waited for as well.
  void Nest(int epoll);
  // A turn is these two. First what the kernel has to tell is taken, which is waited for so long;
  // negative: for ever. True: the nested set has something to tell, too.
  bool Poll(int timeout_ms = 0);
  // Then everybody whose turn it is goes on, once.
  void RunReady();

  static constexpr int kTogetherMax = 64;  // so that what they hold stays in the processor's cache

 private:
  friend class Descriptor;
  void GoTogether();

  const int epoll_;
  PendingQueue queue_;
  PendingQueue last_;
  int last_count_ = 0;
};

}  // namespace recourse
