#include "filters/ledger/commit/request_queue.h"

#include <algorithm>
#include <utility>

namespace recourse::group_commit {

Result<void> RequestQueue::Submit(Request request, std::size_t queue_max, MonoTime by) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) {
      return std::unexpected(
          Error(ErrorCode::kLedgerUnavailable, "the ledger is closing", Delivery::kNotSent));
    }
    if (queue_.size() >= queue_max) {
      return std::unexpected(
          Error(ErrorCode::kOverloaded, "the ledger's queue is full", Delivery::kNotSent));
    }
    queue_.push_back(std::move(request));
    if (wakes_at_ <= by) return {};
    wakes_at_ = MonoTime::min();
  }
  wake_.notify_one();
  return {};
}

void RequestQueue::SetRule(const LedgerRule& rule) {
  {
    const std::lock_guard lock(mutex_);
    rule_ = rule;
    rule_is_new_ = true;
  }
  wake_.notify_one();
}

void RequestQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  wake_.notify_all();
}

bool RequestQueue::Take(std::optional<MonoTime> due, std::vector<Request>& taken) {
  std::unique_lock lock(mutex_);
  const auto has_work = [this] { return is_stopping_ || rule_is_new_ || !queue_.empty(); };
  wakes_at_ = due.value_or(MonoTime::max());
  if (due) {
    // The injected clock says how long; waking early does no harm, so real time may serve.
    wake_.wait_for(lock, std::max(*due - clock_.Now(), MonoTime::duration::zero()), has_work);
  } else {
    wake_.wait(lock, has_work);
  }
  wakes_at_ = MonoTime::min();
  std::swap(taken, queue_);
  return !is_stopping_ || !taken.empty();
}

std::optional<LedgerRule> RequestQueue::TakeRule(std::optional<MonoTime> due, MonoTime now) {
  const std::lock_guard lock(mutex_);
  const bool is_new = std::exchange(rule_is_new_, false);  // or it would count as work for ever
  if (!rule_ || is_stopping_ || (!is_new && due && now < *due)) return std::nullopt;
  return rule_;
}

}  // namespace recourse::group_commit
