// Coarse deadlines for one I/O thread: arming and disarming are a few writes, because every request
// does both several times: no operation has a timer of its own. A deadline that moves back
// or is disarmed stays in its place on the wheel; when that comes up it is moved on, or let go.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

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
  ~Deadline();

  void Arm(MonoTime at);
  // Up to kLoose later, together with others: for what nobody waits for.
  void ArmLoosely(MonoTime at);
  void Disarm() { armed_ = false; }
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
  MonoTime placed_for_{};  // while it is linked: the time by which it found its slot
  Deadline* previous_ = nullptr;
  Deadline* next_ = nullptr;
  std::uint32_t slot_ = 0;
  bool linked_ = false;
  bool armed_ = false;
  bool expired_ = false;
};

class DeadlineWheel {
 public:
  static constexpr Millis kTick{50};
  static constexpr Millis kLoose{1'000};
  using Look = void (*)(void* owner, MonoTime when);

  explicit DeadlineWheel(MonoTime now) : start_(now) {}
  // `look(owner, when)` is called with the time at which Advance() is to be called; it stands in
  // for the time that was named before. Not called while nothing is on the wheel: an idle thread
  // sleeps.
  void OnLook(Look look, void* owner) {
    look_ = look;
    owner_ = owner;
  }
  bool empty() const { return linked_ == 0; }
  // Fires what is due. Gives how many deadlines it looked at for that: each of a tick's slot once.
  std::size_t Advance(MonoTime now);

 private:
  friend class Deadline;
  static constexpr std::size_t kSlots = 1024;  // 51 s a turn; later deadlines wait another turn

  static constexpr std::size_t kWordBits = 64;
  static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
  static constexpr std::size_t kDue = kSlots;  // the slot of what fires now

  void Link(Deadline& deadline);
  void LinkIn(std::size_t slot, Deadline& deadline);
  void Settle(Deadline& deadline, MonoTime now);
  void Unlink(Deadline& deadline);
  // The first tick from `done_` on whose slot holds anything.
  std::size_t NextTick() const;
  void AskForLook(std::size_t tick);

  const MonoTime start_;
  std::size_t done_ = 0;  // ticks handled so far
  std::size_t linked_ = 0;
  std::array<Deadline*, kSlots + 1> slots_{};
  std::array<std::uint64_t, kSlots / kWordBits + 1> occupied_{};  // a bit for each slot
  std::size_t asked_ = kNever;  // the tick that was asked for; 0: Advance() is at work
  Look look_ = nullptr;
  void* owner_ = nullptr;
};

inline void Deadline::Arm(MonoTime at) {
  expired_ = false;
  armed_ = true;
  at_ = at;
  if (linked_ && placed_for_ <= at) return;
  if (linked_) wheel_.Unlink(*this);
  wheel_.Link(*this);
}

inline Deadline::~Deadline() {
  if (linked_) wheel_.Unlink(*this);
}

}  // namespace recourse
