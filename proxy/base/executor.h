// Where a coroutine goes on after work on another thread.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "proxy/base/task.h"

namespace recourse {

using Job = std::move_only_function<void()>;

// Why work is not begun any more, for people.
inline constexpr const char* kShuttingDown = "the process is shutting down";

// One I/O thread seen from outside. Implementations outlive everything that posts to them.
class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the jobs in order on the executor's thread, later, never inside this call. Thread-safe.
  virtual void Post(std::vector<Job> jobs) = 0;
};

}  // namespace recourse
