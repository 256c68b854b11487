#include "proxy/base/work_loop.h"

#include <algorithm>

#include "proxy/base/check.h"
#include "proxy/base/post_job.h"

namespace recourse {

WorkLoop::~WorkLoop() { RC_CHECK(active_ == 0); }

Task<void> WorkLoop::Run(std::function<void()> look,
                         std::function<std::optional<MonoTime>()> next) {
  while (!is_stopping_) {
    look();
    if (const std::optional<MonoTime> due = next()) {
      const MonoTime now = clock_.Now();
      co_await timer_.SleepUntil(std::min(now + tick_, std::max(*due, now)));
    } else {
      wake_.emplace();
      co_await wake_->Wait();
      wake_.reset();
    }
  }
}

Task<void> WorkLoop::Drain() {
  if (active_ == 0) co_return;
  drained_.emplace();
  co_await drained_->Wait();
  drained_.reset();
}

void WorkLoop::Wake() {
  if (wake_ && !wake_->is_set()) wake_->Set(true);
}

void WorkLoop::Stop() {
  Post([this] {
    is_stopping_ = true;
    Wake();
  });
}

void WorkLoop::Post(Job job) { PostJob(executor_, std::move(job)); }

void WorkLoop::Spawn(Task<void> task, Job done) {
  ++active_;
  recourse::Spawn(std::move(task), [this, done = std::move(done)]() mutable {
    if (done) done();
    if (--active_ == 0 && drained_) drained_->Set(true);
  });
}

Task<bool> WorkLoop::Pause() {
  if (is_stopping_) co_return false;
  co_await timer_.SleepUntil(clock_.Now() + tick_);
  co_return !is_stopping_;
}

}  // namespace recourse
