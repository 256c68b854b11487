// A clock that runs faster than the world, the same in every process that was given its start.
#pragma once

#include "proxy/base/clock.h"

namespace recourse {

class FastClock final : public Clock {
 public:
  explicit FastClock(int speed)
      : speed_(speed), start_(SystemClock().Now()), wall_start_(SystemClock().WallNow()) {}

  MonoTime Now() const override { return start_ + Lived(); }
  WallTime WallNow() const override {
    return wall_start_ + std::chrono::duration_cast<WallTime::duration>(Lived());
  }

 private:
  MonoTime::duration Lived() const { return (SystemClock().Now() - start_) * speed_; }

  const int speed_;
  const MonoTime start_;
  const WallTime wall_start_;
};

}  // namespace recourse
