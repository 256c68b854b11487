// What one thread does about once a second while there is something to let go, and never otherwise.
#pragma once

#include <functional>
#include <ranges>
#include <vector>

#include "proxy/base/clock.h"
#include "proxy/net/loop/deadline_wheel.h"

namespace recourse {

// One thread; outlives the wheel's use of it.
class PeriodicTasks {
 public:
  PeriodicTasks(DeadlineWheel& wheel, const Clock& clock)
      : clock_(clock),
        due_(wheel, [](void* self) { static_cast<PeriodicTasks*>(self)->Run(); }, this) {}

  // `look` lets go of what was not needed; true: there is more that may have to go later. It is
  // called as long as this lives, and after those that were added later: it sees what they let go.
  void Add(std::move_only_function<bool()> look) { looks_.push_back(std::move(look)); }
  // There is something to let go, if it is not needed again. A look is at most 2 s away.
  void Want() {
    if (!is_wanted_) Plan();
  }

 private:
  static constexpr Millis kEvery{1'000};
  void Plan() {
    is_wanted_ = true;
    due_.ArmLoosely(clock_.Now() + kEvery);
  }
  void Run() {
    bool has_more = false;
    for (auto& look : std::views::reverse(looks_)) has_more = look() || has_more;
    is_wanted_ = false;
    if (has_more) Plan();
  }

  const Clock& clock_;
  Deadline due_;
  std::vector<std::move_only_function<bool()>> looks_;
  bool is_wanted_ = false;
};

}  // namespace recourse
