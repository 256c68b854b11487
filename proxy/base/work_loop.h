// The loop of a background worker: it looks at what is due, sleeps until more is, and ends after
// the last task that it began.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// Belongs to the thread of `executor`; Post, Stop, Close and Await may be called on any thread.
// Outlives every job that it posted.
class WorkLoop {
 public:
  // It looks again after `tick` at the latest while something is due.
  WorkLoop(Executor& executor, Timer& timer, const Clock& clock, Millis tick)
      : executor_(executor), timer_(timer), clock_(clock), tick_(tick) {}
  WorkLoop(const WorkLoop&) = delete;
  WorkLoop& operator=(const WorkLoop&) = delete;
  ~WorkLoop();

  // Calls `look` whenever something may be due, until Stop(). `next` says when something will be;
  // nullopt: not before Wake().
  Task<void> Run(std::function<void()> look, std::function<std::optional<MonoTime>()> next);
  // Returns when the last task of Spawn has ended.
  Task<void> Drain();
  // Run looks now if it waits for Wake().
  void Wake();
  // Ends Run within `tick`.
  void Stop();
  bool is_stopping() const { return is_stopping_; }

  void Post(Job job);
  // Begins the task and counts it until it has ended and `done` has run.
  void Spawn(Task<void> task, Job done = {});
  std::size_t active() const { return active_; }
  // A pause of a tick; false: the loop has ended meanwhile, and nothing is tried any more.
  Task<bool> Pause();

  // Runs on the loop's thread what `make` begins, and blocks the calling thread, another one, until
  // it has ended. Fails with kShuttingDown after Stop() or Close().
  template <class T>
  std::expected<T, std::string> Await(std::function<Task<std::expected<T, std::string>>()> make);
  // Lets go whoever waits in Await, now and later: the loop's thread ends.
  void Close() { closed_ = true; }

 private:
  Executor& executor_;
  Timer& timer_;
  const Clock& clock_;
  const Millis tick_;
  std::atomic<bool> closed_{false};

  // Owned by the loop's thread.
  std::size_t active_ = 0;
  bool is_stopping_ = false;
  std::optional<Promise<bool>> wake_;     // set while Run() has nothing to do
  std::optional<Promise<bool>> drained_;  // set while Drain() waits for the last task
};

template <class T>
std::expected<T, std::string> WorkLoop::Await(
    std::function<Task<std::expected<T, std::string>>()> make) {
  using Answer = std::expected<T, std::string>;
  const auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  Post([this, make = std::move(make), promise]() mutable {
    if (is_stopping_) {
      promise->set_value(std::unexpected(kShuttingDown));
      return;
    }
    Spawn([](std::function<Task<Answer>()> begin,
             std::shared_ptr<std::promise<Answer>> told) -> Task<void> {
      told->set_value(co_await begin());
    }(std::move(make), promise));
  });
  while (answer.wait_for(tick_) != std::future_status::ready) {
    if (closed_) return std::unexpected(kShuttingDown);
  }
  return answer.get();
}

}  // namespace recourse
