// What measures a ledger without HTTP: a thread for its coroutines, and calls as those of
// `bench.order` in conf/recourse.yaml.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "filters/ledger/ledger.h"

namespace recourse::bench {

// Runs what the ledger posts on the main thread.
class MainThread final : public Executor {
 public:
  void Post(std::vector<Job> jobs) override {
    {
      const std::lock_guard lock(mutex_);
      for (Job& job : jobs) jobs_.push_back(std::move(job));
    }
    wake_.notify_one();
  }

  template <class Done>
  void RunUntil(Done done) {
    while (!done()) {
      std::vector<Job> jobs;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !jobs_.empty(); });
        std::swap(jobs, jobs_);
      }
      for (Job& job : jobs) job();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Job> jobs_;  // guarded by mutex_
};

inline NewOperation CallOf(std::uint64_t number) {
  NewOperation call;
  Event& event = call.event;
  event.key = Sha256("key " + std::to_string(number));
  event.intent = Sha256("intent " + std::to_string(number));
  event.args_hash = Sha256("arguments " + std::to_string(number));
  event.tool = "bench.order";
  event.backend = "bench";
  event.caller = "local";
  event.trace_id = event.flow = ToHex(event.key).substr(0, 32);
  event.policy_version = "0123456789abcdef";
  event.method = "POST";
  event.path = "/orders";
  call.across_traces = AcrossTraces::kIfUnanswered;
  return call;
}

inline Transition OutcomeOf(const Event& begun, std::size_t answer_bytes) {
  Transition outcome;
  outcome.operation = begun.operation;
  outcome.attempt = begun.attempt;
  outcome.to = Phase::kSucceeded;
  outcome.cause = Cause::kAnswer;
  outcome.http_status = 200;
  outcome.answer_kept = true;
  outcome.answer = {200,
                    "OK",
                    {{"Server", "backend"},
                     {"Date", "Thu, 01 Jan 2026 00:00:00 GMT"},
                     {"Content-Type", "application/json"},
                     {"Cache-Control", "no-store"}},
                    std::string(answer_bytes, 'x')};
  return outcome;
}

}  // namespace recourse::bench
