#include "proxy/net/deadline.h"

#include <algorithm>
#include <bit>

namespace recourse {

void Deadline::Arm(MonoTime at) {
  Disarm();
  expired_ = false;
  at_ = at;
  wheel_.Link(*this);
}

void Deadline::ArmLoosely(MonoTime at) {
  const auto late = (at - wheel_.start_) % DeadlineWheel::kLoose;
  Arm(late > late.zero() ? at + (DeadlineWheel::kLoose - late) : at);
}

void Deadline::Disarm() {
  if (armed_) wheel_.Unlink(*this);
}

void DeadlineWheel::Link(Deadline& deadline) {
  const std::size_t tick =
      deadline.at_ <= start_ ? 0 : static_cast<std::size_t>((deadline.at_ - start_) / kTick) + 1;
  // Never into a tick that was handled already: it would wait a whole turn.
  const std::size_t soonest = std::max(tick, done_ + 1);
  LinkIn(soonest % kSlots, deadline);
  if (soonest < asked_) AskForLook(soonest);
}

void DeadlineWheel::LinkIn(std::size_t slot, Deadline& deadline) {
  deadline.slot_ = slot;
  Deadline*& first = slots_[slot];
  deadline.previous_ = nullptr;
  deadline.next_ = first;
  if (first != nullptr) first->previous_ = &deadline;
  first = &deadline;
  occupied_[deadline.slot_ / kWordBits] |= std::uint64_t{1} << deadline.slot_ % kWordBits;
  deadline.armed_ = true;
  ++armed_;
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
  deadline.armed_ = false;
  --armed_;
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

// Firing may unlink or destroy any other. So what is due is set apart first, and whoever stays, of
// whom a slot may have thousands that are due a turn later, is looked at once.
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
      if (deadline->at_ <= now) {
        Unlink(*deadline);
        LinkIn(kDue, *deadline);
      }
      deadline = next;
      ++looked_at;
    }
    while ((deadline = slots_[kDue]) != nullptr) {
      Unlink(*deadline);
      deadline->expired_ = true;
      deadline->fire_(deadline->owner_);
    }
  }
  asked_ = kNever;
  if (armed_ > 0) AskForLook(NextTick());
  return looked_at;
}

}  // namespace recourse
