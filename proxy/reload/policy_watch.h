// What the main thread waits for: signals, and files of the policy that may have changed.
#pragma once

#include <string>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/net/loop/signal_wait.h"

namespace recourse {

// One thread, but for Wake(). SIGTERM, SIGINT and SIGHUP must be blocked in every thread.
class PolicyWatch {
 public:
  // Watches the directory that holds each of `paths`, and the path itself when it is one: links are
  // replaced there. Where that is not possible, looking now and then has to do. Empty paths are
  // left out.
  PolicyWatch(const std::vector<std::string>& paths, const Clock& clock);

  enum class Event : std::uint8_t {
    kStop,    // SIGTERM or SIGINT
    kReload,  // SIGHUP
    kNotice,  // a file near the policy changed up to kPolicyNotice ago, or Wake() was called
    kTime,    // `longest` has passed
  };
  Event Wait(Millis longest);
  // Ends the Wait() that is under way, or the next one. Thread-safe.
  void Wake() { wait_.Wake(); }

 private:
  const Clock& clock_;
  SignalWait wait_;
};

// Blocks the signals that PolicyWatch takes, in this thread and those it starts.
void BlockWatchedSignals();

}  // namespace recourse
