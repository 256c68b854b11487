// Threads for work that would hold up an I/O thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proxy/base/executor.h"
#include "proxy/base/task.h"

namespace recourse {

// Owners take turns, whoever has more waiting. Thread-safe; outlives who waits for it.
class ThreadPool {
 public:
  // So many jobs may wait, of one owner three quarters of them.
  explicit ThreadPool(std::size_t waiting_max) : waiting_max_(waiting_max) {}
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { Stop(); }

  // Without threads somebody calls RunNext().
  void Start(std::size_t threads, const std::string& name);
  // Returns when the jobs at work have ended. What waits is never run, and neither does who waits
  // for it go on.
  void Stop();

  // Runs `job` on one of the threads and resumes on `executor`, on whose thread this is called.
  // False: too many wait, and it was not run.
  Task<bool> Run(std::string owner, Job job, Executor& executor);
  // Runs one job that waits, on the calling thread. False: none does.
  bool RunNext();
  // That wait or run.
  std::size_t jobs() const;

 private:
  struct Waiting {
    Job job;
    Promise<bool>* done = nullptr;
    Executor* executor = nullptr;
  };

  bool Add(const std::string& owner, Waiting waiting);
  bool Take(Waiting& next);  // with mutex_ held
  void Carry(Waiting& one);
  void Work(const std::string& name);

  const std::size_t waiting_max_;
  std::vector<std::thread> threads_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::map<std::string, std::deque<Waiting>> waiting_;  // guarded by mutex_; none is empty
  std::deque<std::string> turns_;                       // of waiting_; guarded by mutex_
  std::size_t count_ = 0;                               // that wait; guarded by mutex_
  std::size_t running_ = 0;                             // guarded by mutex_
  bool is_stopping_ = false;                            // guarded by mutex_
};

}  // namespace recourse
