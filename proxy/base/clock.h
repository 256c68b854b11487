// Time comes in through a Clock, so that a test can run a 30-second backend in no time.
#pragma once

#include <chrono>

#include "proxy/base/task.h"

namespace recourse {

using MonoTime = std::chrono::steady_clock::time_point;
using WallTime = std::chrono::system_clock::time_point;
using Millis = std::chrono::milliseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  // For durations and deadlines. Thread-safe.
  virtual MonoTime Now() const = 0;
  // For people and for records only; may jump. Thread-safe.
  virtual WallTime WallNow() const = 0;
};

// A Clock on which a coroutine of one I/O thread can wait.
class Timer {
 public:
  virtual ~Timer() = default;
  // Resumes on the calling I/O thread at or after `when`.
  virtual Task<void> SleepUntil(MonoTime when) = 0;
};

class SystemClock final : public Clock {
 public:
  MonoTime Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
};

// Milliseconds since the Unix epoch, as stored in records.
inline std::int64_t ToUnixMillis(WallTime time) {
  return std::chrono::duration_cast<Millis>(time.time_since_epoch()).count();
}

}  // namespace recourse
