// An answer on its way to its client while it is still being made.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proxy/exchange/reply.h"

namespace recourse {

// Belongs to one answer. Ends before it goes: once Begin() was called, so must be End(). What a
// client does not take in time makes it count as gone, and nothing more is sent.
class ClientStream {
 public:
  ClientStream(Reply& reply, const Clock& clock, Millis send_timeout)
      : reply_(reply), clock_(clock), send_timeout_(send_timeout) {}

  // The reply has its head, which goes out with the first piece; that may be empty.
  void Begin() { has_begun_ = true; }
  void Put(std::string_view piece);
  bool has_begun() const { return has_begun_; }
  // What was put and not taken yet, apart from what is being sent.
  std::size_t queued() const { return queue_.size(); }
  // Waits until no more than `most` is queued. In all, a client has as much time for that as for
  // taking a whole answer of the size.
  Task<void> AwaitRoom(std::size_t most);
  // The client gets nothing more.
  void GiveUp();
  bool is_gone() const { return is_gone_; }
  // Sends what is left. kCut: the client is to see that the answer has no end. True: it took all.
  enum class How : std::uint8_t { kWhole, kCut };
  Task<bool> End(How how);

 private:
  void StartDraining();
  Task<void> Drain();
  Task<void> AwaitDrain();
  Millis TimeFor(std::size_t bytes) const;

  Reply& reply_;
  const Clock& clock_;
  const Millis send_timeout_;
  std::string queue_;
  Promise<bool>* waiter_ = nullptr;  // for what is being sent to be taken
  std::size_t bytes_ = 0;            // of what was taken
  MonoTime::duration waited_{};      // for room
  bool is_due_ = false;              // also when nothing is queued: the head, or the end
  bool ends_ = false;                // with what is queued
  bool has_begun_ = false;
  bool is_draining_ = false;
  bool is_gone_ = false;
};

}  // namespace recourse
