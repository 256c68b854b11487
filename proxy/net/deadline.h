// Coarse deadlines for one I/O thread: arming and disarming are a few pointer writes, because every
// request does both several times (performance.md 6.3: no timer per operation).
#pragma once

#include <array>
#include <cstddef>

#include "proxy/base/clock.h"

namespace recourse {

class DeadlineWheel;

// Something that is to end when time is up. Pinned; disarms itself when destroyed.
class Deadline {
 public:
  using Fire = void (*)(void* owner);
  // `fire(owner)` runs on the wheel's thread, at most once per arming, up to kTick late.
  Deadline(DeadlineWheel& wheel, Fire fire, void* owner)
      : wheel_(wheel), fire_(fire), owner_(owner) {}
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;
  ~Deadline() { Disarm(); }

  void Arm(MonoTime at);
  void Disarm();
  // Not armed, and as if it had never fired.
  void Reset() {
    Disarm();
    expired_ = false;
  }
  // Fired since it was last armed.
  bool expired() const { return expired_; }

 private:
  friend class DeadlineWheel;
  DeadlineWheel& wheel_;
  Fire fire_;
  void* owner_;
  MonoTime at_{};
  Deadline* previous_ = nullptr;
  Deadline* next_ = nullptr;
  std::size_t slot_ = 0;
  bool armed_ = false;
  bool expired_ = false;
};

class DeadlineWheel {
 public:
  static constexpr Millis kTick{50};

  explicit DeadlineWheel(MonoTime now) : start_(now) {}
  bool empty() const { return armed_ == 0; }
  // Fires what is due. Call about every kTick while not empty.
  void Advance(MonoTime now);

 private:
  friend class Deadline;
  static constexpr std::size_t kSlots = 1024;  // 51 s a turn; later deadlines wait another turn

  void Link(Deadline& deadline);
  void Unlink(Deadline& deadline);

  const MonoTime start_;
  std::size_t done_ = 0;  // ticks handled so far
  std::size_t armed_ = 0;
  std::array<Deadline*, kSlots> slots_{};
};

}  // namespace recourse
