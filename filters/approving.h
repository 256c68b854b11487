// How the chain tells whoever looks after what waits for humans. Implemented by filters/approval.
#pragma once

namespace recourse {

struct Event;  // filters/ledger/event.h

class Approving {
 public:
  virtual ~Approving() = default;
  // An operation began to wait, durably: its time runs, and somebody may want to hear of it.
  // Thread-safe, does not wait.
  virtual void Watch(const Event& claim) = 0;
};

}  // namespace recourse
