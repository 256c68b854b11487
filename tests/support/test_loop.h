// A world of one thread in virtual time: jobs run when the loop runs, and when nothing can run
// the clock jumps to the next sleeper. A 30-second backend takes no time.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "proxy/base/check.h"
#include "proxy/base/clock.h"
#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

class TestLoop {
 public:
  TestLoop() : executor_(*this), clock_(*this), timer_(*this) {}
  TestLoop(const TestLoop&) = delete;
  TestLoop& operator=(const TestLoop&) = delete;

  Executor& executor() { return executor_; }
  const Clock& clock() const { return clock_; }
  Timer& timer() { return timer_; }
  MonoTime now() const { return MonoTime(Millis(1'000)) + elapsed_; }
  std::size_t running() const { return running_; }
  // From now on sleepers wake at multiples of it only, as those of an I/O thread do.
  void SetTimerTick(Millis tick) { timer_tick_ = tick; }

  // Starts a task; it may be done before this returns.
  void Start(Task<void> task) {
    ++running_;
    Spawn(std::move(task), [this] { --running_; });
  }
  // Runs jobs that are ready, without moving the clock.
  void RunReady() {
    do {
      for (std::vector<Job> ready = TakeJobs(); !ready.empty(); ready = TakeJobs()) {
        for (Job& job : ready) job();
      }
    } while (turn_ && turn_());
  }
  // Another loop of this thread has its turn as well, as long as `turn` says that it had something.
  void Turns(std::function<bool()> turn) { turn_ = std::move(turn); }
  // Runs until nothing is ready and nobody sleeps.
  void RunAll() {
    for (RunReady(); !sleepers_.empty(); RunReady()) WakeNext();
  }
  // Runs everything that happens in the next `duration`, and moves the clock by it.
  void RunFor(Millis duration) {
    const MonoTime end = now() + duration;
    for (RunReady(); !sleepers_.empty() && sleepers_.begin()->first <= end; RunReady()) WakeNext();
    elapsed_ = end - MonoTime(Millis(1'000));
  }
  // Moves the clock while nothing runs, as a long absence does.
  void Skip(Millis duration) { elapsed_ += duration; }
  // Runs until `task` has ended and gives its value. Ends the test program when it is stuck.
  template <class T>
  T Run(Task<T> task) {
    std::optional<T> value;
    Start(Store(std::move(task), value));
    for (RunReady(); !value && !sleepers_.empty(); RunReady()) WakeNext();
    RC_CHECK(value.has_value());
    return std::move(*value);
  }

 private:
  class LoopExecutor final : public Executor {
   public:
    explicit LoopExecutor(TestLoop& loop) : loop_(loop) {}
    void Post(std::vector<Job> jobs) override {
      const std::lock_guard lock(loop_.mutex_);
      for (Job& job : jobs) loop_.jobs_.push_back(std::move(job));
    }

   private:
    TestLoop& loop_;
  };
  class LoopClock final : public Clock {
   public:
    explicit LoopClock(const TestLoop& loop) : loop_(loop) {}
    MonoTime Now() const override { return loop_.now(); }
    WallTime WallNow() const override {
      return WallTime(std::chrono::seconds(1'700'000'000)) +
             std::chrono::duration_cast<WallTime::duration>(loop_.elapsed_);
    }

   private:
    const TestLoop& loop_;
  };
  class LoopTimer final : public Timer {
   public:
    explicit LoopTimer(TestLoop& loop) : loop_(loop) {}
    Task<void> SleepUntil(MonoTime when) override {
      Promise<bool> awake;
      loop_.sleepers_.emplace(loop_.NextTick(when), &awake);
      co_await awake.Wait();
    }

   private:
    TestLoop& loop_;
  };

  std::vector<Job> TakeJobs() {
    const std::lock_guard lock(mutex_);
    return std::exchange(jobs_, {});
  }
  MonoTime NextTick(MonoTime when) const {
    if (timer_tick_ == Millis(0)) return when;
    const MonoTime::duration tick(timer_tick_);
    const auto ticks = (when.time_since_epoch() + tick - MonoTime::duration(1)) / tick;
    return MonoTime(tick * ticks);
  }
  void WakeNext() {
    const auto next = sleepers_.begin();
    elapsed_ = std::max(elapsed_, next->first - MonoTime(Millis(1'000)));
    Promise<bool>* const awake = next->second;
    sleepers_.erase(next);
    awake->Set(true);
  }
  template <class T>
  static Task<void> Store(Task<T> task, std::optional<T>& value) {
    value.emplace(co_await std::move(task));
  }

  std::mutex mutex_;       // an operator's thread posts, too
  std::vector<Job> jobs_;  // guarded by mutex_
  std::multimap<MonoTime, Promise<bool>*> sleepers_;
  MonoTime::duration elapsed_{};
  Millis timer_tick_{};
  std::size_t running_ = 0;
  std::function<bool()> turn_;
  LoopExecutor executor_;
  LoopClock clock_;
  LoopTimer timer_;
};

}  // namespace recourse
