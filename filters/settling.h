// How the chain asks for an operation of unknown outcome to be settled. Implemented by
// filters/settle.
#pragma once

#include <cstdint>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

struct Event;  // filters/ledger/event.h

class Settling {
 public:
  virtual ~Settling() = default;

  // Takes an UNCERTAIN event into the set that is probed in the background. Does nothing for events
  // without a probe, for known operations and when the set is full: then the next repeat brings it
  // again. Thread-safe, does not wait.
  virtual void Watch(const Event& uncertain) = 0;

  // Probes a watched operation now and waits until it left UNCERTAIN: true, read it again. False
  // when it is not watched, when one probe could not tell, or at `deadline`. Call on `executor`'s
  // thread; resumes there.
  virtual Task<bool> SettleNow(std::uint64_t operation, MonoTime deadline, Executor& executor) = 0;
};

}  // namespace recourse
