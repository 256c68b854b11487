#include "proxy/net/loop/deadline_wheel.h"

#include <algorithm>
#include <bit>

namespace recourse {

void Deadline::ArmLoosely(MonoTime at) {
  const auto late = (at - wheel_.start_) % DeadlineWheel::kLoose;
  Arm(late > late.zero() ? at + (DeadlineWheel::kLoose - late) : at);
}

void DeadlineWheel::Link(Deadline& deadline) {
  const std::size_t tick =
      deadline.at_ <= start_ ? 0 : static_cast<std::size_t>((deadline.at_ - start_) / kTick) + 1;
  // Never into a tick that was handled already: it would wait a whole turn.
  const std::size_t soonest = std::max(tick, done_ + 1);
  deadline.placed_for_ = deadline.at_;
  LinkIn(soonest % kSlots, deadline);
  if (soonest < asked_) AskForLook(soonest);
}

void DeadlineWheel::LinkIn(std::size_t slot, Deadline& deadline) {
  deadline.slot_ = static_cast<std::uint32_t>(slot);
  Deadline*& first = slots_[slot];
  deadline.previous_ = nullptr;
  deadline.next_ = first;
  if (first != nullptr) first->previous_ = &deadline;
  first = &deadline;
  occupied_[deadline.slot_ / kWordBits] |= std::uint64_t{1} << deadline.slot_ % kWordBits;
  deadline.linked_ = true;
  ++linked_;
}

void DeadlineWheel::Unlink(Deadline& deadline) {
  if (deadline.previous_ != nullptr) {
    deadline.previous_->next_ = deadline.next_;
  } else {
    slots_[deadline.slot_] = deadline.next_;
  }
  if (deadline.next_ != nullptr) deadline.next_->previous_ = deadline.previous_;
  if (slots_[deadline.slot_] == nullptr) {
    occupied_[deadline.slot_ / kWordBits] &= ~(std::uint64_t{1} << deadline.slot_ % kWordBits);
  }
  deadline.previous_ = deadline.next_ = nullptr;
  deadline.linked_ = false;
  --linked_;
}

std::size_t DeadlineWheel::NextTick() const {
  const std::size_t first = done_ + 1;
  for (std::size_t ahead = 0; ahead < kSlots;) {
    const std::size_t slot = (first + ahead) % kSlots;
    const std::uint64_t word = occupied_[slot / kWordBits] >> slot % kWordBits;
    if (word != 0) return first + ahead + static_cast<std::size_t>(std::countr_zero(word));
    ahead += kWordBits - slot % kWordBits;
  }
  return kNever;
}

void DeadlineWheel::AskForLook(std::size_t tick) {
  asked_ = tick;
  if (look_ != nullptr) look_(owner_, start_ + kTick * static_cast<std::int64_t>(tick));
}

// The place of `deadline` has come up.
void DeadlineWheel::Settle(Deadline& deadline, MonoTime now) {
  const bool is_due = deadline.armed_ && deadline.at_ <= now;
  if (deadline.armed_ && !is_due && deadline.at_ == deadline.placed_for_) return;  // a turn later
  Unlink(deadline);
  if (is_due) {
    LinkIn(kDue, deadline);
  } else if (deadline.armed_) {
    Link(deadline);
  }
}

// Firing may disarm, move or destroy any other. So what is due is set apart first, and whoever
// stays, of whom a slot may have thousands that are due a turn later, is looked at once.
std::size_t DeadlineWheel::Advance(MonoTime now) {
  asked_ = 0;  // what is armed meanwhile is seen at the end
  std::size_t looked_at = 0;
  const std::size_t current = now <= start_ ? 0 : static_cast<std::size_t>((now - start_) / kTick);
  // After a stall of more than a turn every slot is looked at once.
  if (current > kSlots) done_ = std::max(done_, current - kSlots);
  while (done_ < current) {
    ++done_;
    Deadline* deadline = slots_[done_ % kSlots];
    while (deadline != nullptr) {
      Deadline* const next = deadline->next_;
      Settle(*deadline, now);
      deadline = next;
      ++looked_at;
    }
    while ((deadline = slots_[kDue]) != nullptr) {
      Unlink(*deadline);
      if (!deadline->armed_) continue;
      if (deadline->at_ > now) {
        Link(*deadline);
        continue;
      }
      deadline->armed_ = false;
      deadline->expired_ = true;
      deadline->fire_(deadline->owner_);
    }
  }
  asked_ = kNever;
  if (linked_ > 0) AskForLook(NextTick());
  return looked_at;
}

}  // namespace recourse
