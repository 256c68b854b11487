// How the chain asks for an operation of unknown outcome to be settled. Implemented by
// filters/settle.
#pragma once

#include <cstdint>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

struct Event;  // filters/ledger/event.h

// What a step that was proved absent looks like later.
enum class SecondLook : std::uint8_t {
  kAbsent,
  kTookEffect,  // after all; recorded: read it again
  kPerhaps,     // there is an effect, which may be another call's
  kNothing,     // it cannot be asked, or the answer tells nothing
};

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

  // Probes a step in PROVEN_ABSENT once more. Only an effect that its settle request finds by the
  // operation's own key is surely its own: after the proof the same intent may have been sent under
  // another key. Call on `executor`'s thread; resumes there.
  virtual Task<SecondLook> LookAgain(Event absent, Executor& executor) = 0;
};

}  // namespace recourse
