// What the main thread waits for: signals of the process, what the kernel tells of files, and
// whoever wakes it.
#pragma once

#include <initializer_list>
#include <memory>

#include "proxy/base/clock.h"

namespace recourse {

// One thread, but for Wake().
class SignalWait {
 public:
  // `signals` are blocked in every thread; they are taken during Wait() alone, by whoever calls it.
  // `files` gives bytes when a file has changed, and is taken over; negative: there is none.
  SignalWait(std::initializer_list<int> signals, int files);
  ~SignalWait();
  SignalWait(const SignalWait&) = delete;
  SignalWait& operator=(const SignalWait&) = delete;

  struct News {
    int signal = 0;  // 0: none came
    bool has_files = false;
    bool is_woken = false;
  };
  // The next of these; none at the latest when `longest` has passed.
  News Wait(Millis longest);
  // Ends the Wait() that is under way, or the next one. Thread-safe.
  void Wake();

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace recourse
