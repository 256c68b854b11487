#include "proxy/notify/notification_queue.h"

#include <algorithm>

#include "filters/saga/undo_plan.h"

namespace recourse {

void NotificationQueue::Clear() {
  fresh_.clear();
  again_.clear();
  waiting_.clear();
}

void NotificationQueue::Add(Notification news) {
  if (waiting_.insert(news).second) fresh_.push_back(news);
}

std::optional<Notification> NotificationQueue::Take(MonoTime now) {
  const bool may_fresh = !fresh_.empty() && now >= fresh_at_;
  const bool may_again = !again_.empty() && now >= again_at_;
  if (!may_fresh && !may_again) return std::nullopt;
  is_again_ = may_again && (!is_again_ || !may_fresh);
  std::deque<Notification>& from = is_again_ ? again_ : fresh_;
  const Notification news = from.front();
  from.pop_front();
  waiting_.erase(news);
  return news;
}

MonoTime NotificationQueue::next_try() const {
  if (fresh_.empty()) return again_at_;
  return again_.empty() ? fresh_at_ : std::min(fresh_at_, again_at_);
}

// One failure may be about that news; more of them, and then none, were an outage.
void NotificationQueue::Taken() {
  if (is_again_ || in_a_row_ > 1) {
    again_at_ = {};
    failures_ = 0;
  }
  fresh_at_ = {};
  in_a_row_ = 0;
}

void NotificationQueue::Failed(Notification news, MonoTime now, std::uint32_t jitter) {
  in_a_row_ = std::min(in_a_row_ + 1, kFailuresMax);
  if (in_a_row_ > 1) fresh_at_ = now + UndoPause(1, std::nullopt, jitter);
  // New news that fails does not put off what waits for its next try.
  if (is_again_ || again_at_ <= now) {
    failures_ = std::min(failures_ + 1, kFailuresMax);
    again_at_ = now + UndoPause(failures_, std::nullopt, jitter);
  }
  if (waiting_.insert(news).second) again_.push_back(news);  // else there is newer news of it
}

}  // namespace recourse
