#include "proxy/base/thread_pool.h"

#include <utility>

#include "proxy/base/post_job.h"
#include "proxy/base/short_turns.h"
#include "proxy/base/thread_name.h"

namespace recourse {

void ThreadPool::Start(std::size_t threads, const std::string& name) {
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this, own = name + "-" + std::to_string(i)] { Work(own); });
  }
}

void ThreadPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

Task<bool> ThreadPool::Run(std::string owner, Job job, Executor& executor) {
  Promise<bool> done;
  if (!Add(owner, {std::move(job), &done, &executor})) co_return false;
  co_return co_await done.Wait();
}

bool ThreadPool::RunNext() {
  Waiting next;
  {
    const std::lock_guard lock(mutex_);
    if (!Take(next)) return false;
  }
  Carry(next);
  return true;
}

std::size_t ThreadPool::jobs() const {
  const std::lock_guard lock(mutex_);
  return count_ + running_;
}

bool ThreadPool::Add(const std::string& owner, Waiting waiting) {
  {
    const std::lock_guard lock(mutex_);
    const auto own = waiting_.find(owner);
    const std::size_t owned = own == waiting_.end() ? 0 : own->second.size();
    if (count_ >= waiting_max_ || owned >= waiting_max_ / 4 * 3) return false;
    if (owned == 0) turns_.push_back(owner);
    waiting_[owner].push_back(std::move(waiting));
    ++count_;
  }
  wake_.notify_one();
  return true;
}

// Whoever is served goes behind the others.
bool ThreadPool::Take(Waiting& next) {
  if (turns_.empty()) return false;
  std::string owner = std::move(turns_.front());
  turns_.pop_front();
  const auto own = waiting_.find(owner);
  next = std::move(own->second.front());
  own->second.pop_front();
  if (own->second.empty()) {
    waiting_.erase(own);
  } else {
    turns_.push_back(std::move(owner));
  }
  --count_;
  ++running_;
  return true;
}

void ThreadPool::Carry(Waiting& one) {
  one.job();
  one.job = nullptr;
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  PostJob(*one.executor, [done = one.done] { done->Set(true); });
}

void ThreadPool::Work(const std::string& name) {
  NameThread(name);
  TakeShortTurns();
  for (;;) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_stopping_ || !turns_.empty(); });
      if (is_stopping_) return;
      (void)Take(next);
    }
    Carry(next);
  }
}

}  // namespace recourse
