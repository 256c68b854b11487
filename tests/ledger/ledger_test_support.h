// What the ledger tests share: a clock that is moved by hand, an executor that the test pumps, a
// directory of its own, and builders that hide what a test does not care about.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"
#include "tests/support/temp_directory.h"

namespace recourse {

class ManualClock final : public Clock {
 public:
  MonoTime Now() const override { return MonoTime(Millis(now_ms_.load())); }
  WallTime WallNow() const override {
    return WallTime(Millis(kStartMs + now_ms_.load() + ahead_ms_.load()));
  }
  void Advance(Millis by) { now_ms_ += by.count(); }
  // Somebody sets the wall clock.
  void JumpWall(Millis by) { ahead_ms_ += by.count(); }

  static constexpr std::int64_t kStartMs = 1'700'000'000'000;

 private:
  std::atomic<std::int64_t> now_ms_ = 1'000;
  std::atomic<std::int64_t> ahead_ms_ = 0;
};

// Runs posted jobs on the thread of the test.
class PumpedExecutor final : public Executor {
 public:
  void Post(std::vector<Job> jobs) override {
    {
      const std::lock_guard lock(mutex_);
      for (Job& job : jobs) jobs_.push_back(std::move(job));
      ++posts_;
    }
    ready_.notify_all();
  }

  bool has_jobs() {
    const std::lock_guard lock(mutex_);
    return !jobs_.empty();
  }

  // Runs jobs until `done`. A test that gets stuck fails after a minute.
  template <class Done>
  void RunUntil(Done done) {
    while (!done()) {
      std::unique_lock lock(mutex_);
      const bool has_job =
          ready_.wait_for(lock, std::chrono::minutes(1), [this] { return !jobs_.empty(); });
      if (!has_job) {
        ADD_FAILURE() << "nothing was posted";
        std::abort();
      }
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Job> jobs_;   // guarded by mutex_
  std::size_t posts_ = 0;  // guarded by mutex_
};

// A task that was started and whose result is picked up later.
template <class T>
class Started {
 public:
  explicit Started(Task<T> task) {
    Spawn(Run(std::move(task), *this), [] {});
  }
  Started(const Started&) = delete;
  // What nobody picks up lives on with its frame: a leak where it ended, a use of freed memory
  // where not.
  ~Started() { EXPECT_TRUE(is_done()) << "a task that nobody waited for"; }
  bool is_done() const { return value_.has_value(); }
  T Get(PumpedExecutor& executor) {
    executor.RunUntil([this] { return is_done(); });
    return std::move(*value_);
  }

 private:
  static Task<void> Run(Task<T> task, Started& self) {
    self.value_.emplace(co_await std::move(task));
  }

  std::optional<T> value_;
};

template <class T>
T Await(Task<T> task, PumpedExecutor& executor) {
  return Started<T>(std::move(task)).Get(executor);
}

// For tests that commit often and do not care about the disk: memory, where there is some.
inline std::filesystem::path MemoryPath() {
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
}

// Where a sync costs nothing, for tests with thousands of commits and no power cut.
inline std::filesystem::path FastParent() {
  std::error_code ec;
  const std::filesystem::path shared = "/dev/shm";
  const bool is_there = std::filesystem::is_directory(shared, ec);
  return is_there && access(shared.c_str(), W_OK) == 0 ? shared
                                                       : std::filesystem::temp_directory_path();
}

inline Digest DigestOf(std::string_view text) { return Sha256(text); }

// A call of the tool orders.create under `key`, on trace `trace`.
inline NewOperation Call(std::string_view key, std::string_view trace = "trace-1",
                         std::string_view args = "args") {
  NewOperation call;
  call.event.key = DigestOf(key);
  call.event.args_hash = DigestOf(args);
  call.event.tool = "orders.create";
  call.event.backend = "orders";
  call.event.caller = "agent-1";
  call.event.trace_id = trace;
  call.event.flow = trace;
  call.event.policy_version = "0123456789abcdef";
  call.event.method = "POST";
  call.event.path = "/orders";
  call.failed_ttl = Millis(60'000);
  return call;
}

// Of which the backend knows the key for so long, so that an unknown outcome is sent again.
inline NewOperation KeyedCall(std::string_view key, Millis lives) {
  NewOperation call = Call(key);
  call.event.dedupe_domain = 7;
  call.event.key_field = "";
  call.may_resend = true;
  call.key_lives = lives;
  return call;
}

inline Transition Move(const Event& event, Phase to, Cause cause = Cause::kAnswer) {
  Transition transition;
  transition.operation = event.operation;
  transition.from = event.phase;
  transition.attempt = event.attempt;
  transition.to = to;
  transition.cause = cause;
  return transition;
}

inline Transition Success(const Event& event, std::string body = "{\"id\":7}") {
  Transition transition = Move(event, Phase::kSucceeded);
  transition.http_status = 201;
  transition.external_ref = "7";
  transition.answer_kept = true;
  transition.answer.status = 201;
  transition.answer.reason = "Created";
  transition.answer.headers = {{"Content-Type", "application/json"}, {"X-Request", "a"}};
  transition.answer.body = std::move(body);
  return transition;
}

}  // namespace recourse
