// In which order news is told to the webhook, and when the next try may be. Pure.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>

#include "proxy/base/clock.h"

namespace recourse {

struct Notification {
  enum class Of : std::uint8_t { kFlow, kApproval, kOperation, kHead };
  Of of = Of::kFlow;
  std::uint64_t number = 0;
  auto operator<=>(const Notification&) const = default;
};

// New news and such that was not taken before are tried in turn, each kind in order of its age. So
// nothing waits for what is never taken, nor behind another type of news, and a new question finds
// out soon that a receiver is back. Not thread-safe.
class NotificationQueue {
 public:
  // From so many failures on the pauses grow no further: 16 to 32 seconds.
  static constexpr int kFailuresMax = 6;

  bool empty() const { return waiting_.empty(); }
  void Clear();
  // What waits already keeps its place.
  void Add(Notification news);
  // Takes out what is to be tried now; nullopt: nothing before next_try().
  std::optional<Notification> Take(MonoTime now);
  MonoTime next_try() const;
  // What Take() gave was taken. After an outage whatever waits may be tried now.
  void Taken();
  // What Take() gave was not. `jitter` is random.
  void Failed(Notification news, MonoTime now, std::uint32_t jitter);

 private:
  std::deque<Notification> fresh_, again_;
  std::set<Notification> waiting_;  // those in either
  MonoTime fresh_at_, again_at_;    // not before
  bool is_again_ = false;           // the last one that was taken out came from again_
  int in_a_row_ = 0;                // failures since something was taken
  int failures_ = 0;                // of again_, by which its pauses grow
};

}  // namespace recourse
