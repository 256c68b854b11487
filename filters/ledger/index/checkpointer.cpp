#include "filters/ledger/index/checkpointer.h"

#include <algorithm>
#include <utility>

#include "proxy/base/log/log.h"
#include "proxy/base/thread_name.h"

namespace recourse {

Checkpointer::Checkpointer(ColdIndex* cold, CheckpointPauses pauses)
    : cold_(cold), pauses_(pauses) {
  if (cold_ != nullptr) thread_ = std::thread([this] { Run(); });
}

Checkpointer::~Checkpointer() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Checkpointer::Submit(std::shared_ptr<const IndexSnapshot> snapshot) {
  {
    const std::lock_guard lock(mutex_);
    snapshot_ = std::move(snapshot);
    has_failed_ = false;
    is_done_.store(false, std::memory_order_release);
  }
  changed_.notify_all();
}

bool Checkpointer::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_done() || has_failed_; });
  return is_done();
}

void Checkpointer::GiveUp() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_done() || (has_failed_ && !is_writing_); });
  is_done_.store(true, std::memory_order_release);
}

void Checkpointer::Run() {
  NameThread("recourse-index");
  std::unique_lock lock(mutex_);
  // Kept until the next one comes, so that the many entries of a snapshot are freed here and not
  // on the thread that commits.
  std::shared_ptr<const IndexSnapshot> kept;
  Millis pause = pauses_.first;
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !is_done(); });
    if (is_done()) return;
    auto snapshot = snapshot_;
    is_writing_ = true;
    lock.unlock();
    kept = std::move(snapshot);
    const auto written = cold_->Write(*kept);
    lock.lock();
    is_writing_ = false;
    if (written) {
      if (is_failing_.exchange(false)) Log(LogLevel::kInfo, "the key index is written again");
      pause = pauses_.first;
      is_done_.store(true, std::memory_order_release);
      changed_.notify_all();
      continue;
    }
    // Told when it begins and when it ends, not at each try.
    if (!is_failing_.exchange(true)) {
      Log(LogLevel::kError, "the key index cannot be written; it is tried again",
          {{"reason", written.error()}});
    }
    has_failed_ = true;
    changed_.notify_all();
    if (is_stopping_) return;
    changed_.wait_for(lock, pause, [this] { return is_stopping_; });
    pause = std::min(2 * pause, pauses_.longest);
    if (is_stopping_) return;
  }
}

}  // namespace recourse
